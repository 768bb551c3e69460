//! The word lists of the inflector, in the order that decides which rule wins.
//!
//! Source: gobuffalo/flect v1.0.3 (MIT), `plural_rules.go` and `acronyms.go`; kro pluralises kinds with it, so the
//! lists are part of the names of generated definitions and must not be improved upon.

/// An irregular word.
pub(super) struct Word {
    pub(super) singular: &'static str,
    pub(super) plural: &'static str,
    /// A second plural, known as a plural only.
    pub(super) alternative: &'static str,
    pub(super) use_of: Use,
}

/// How far an irregular word reaches.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Use {
    /// Also at the end of compound words, and the plural is known as a plural.
    Compound,
    /// As a whole word only.
    Exact,
    /// As `Compound`, but the plural is not known as a plural.
    OneWay,
}

const fn word(singular: &'static str, plural: &'static str) -> Word {
    Word {
        singular,
        plural,
        alternative: "",
        use_of: Use::Compound,
    }
}

const fn either(singular: &'static str, plural: &'static str, alternative: &'static str) -> Word {
    Word {
        singular,
        plural,
        alternative,
        use_of: Use::Compound,
    }
}

const fn exact(singular: &'static str, plural: &'static str) -> Word {
    Word {
        singular,
        plural,
        alternative: "",
        use_of: Use::Exact,
    }
}

const fn one_way(singular: &'static str, plural: &'static str) -> Word {
    Word {
        singular,
        plural,
        alternative: "",
        use_of: Use::OneWay,
    }
}

/// Irregular words; a later one wins over an earlier one.
#[rustfmt::skip]
pub(super) const WORDS: &[Word] = &[
    word("aircraft", "aircraft"), either("beef", "beef", "beefs"), word("bison", "bison"),
    one_way("blues", "blues"), word("chassis", "chassis"), word("deer", "deer"),
    either("fish", "fish", "fishes"), word("moose", "moose"), word("police", "police"),
    either("salmon", "salmon", "salmons"), word("series", "series"), word("sheep", "sheep"),
    either("shrimp", "shrimp", "shrimps"), word("species", "species"),
    either("swine", "swine", "swines"), either("trout", "trout", "trouts"),
    either("tuna", "tuna", "tunas"), word("you", "you"), word("child", "children"),
    exact("ox", "oxen"), word("foot", "feet"), word("goose", "geese"), word("man", "men"),
    word("human", "humans"), exact("louse", "lice"), word("mouse", "mice"),
    word("tooth", "teeth"), word("woman", "women"), exact("die", "dice"),
    word("person", "people"), either("adieu", "adieux", "adieus"), word("fabliau", "fabliaux"),
    either("bureau", "bureaus", "bureaux"), word("criterion", "criteria"),
    either("ganglion", "ganglia", "ganglions"), either("lexicon", "lexica", "lexicons"),
    either("mitochondrion", "mitochondria", "mitochondrions"), word("noumenon", "noumena"),
    word("phenomenon", "phenomena"), word("taxon", "taxa"), word("media", "media"),
    one_way("medium", "media"), either("stadium", "stadiums", "stadia"),
    either("aquarium", "aquaria", "aquariums"), either("auditorium", "auditoria", "auditoriums"),
    either("symposium", "symposia", "symposiums"),
    either("curriculum", "curriculums", "curricula"), word("quota", "quotas"),
    either("alumnus", "alumni", "alumnuses"), word("bacillus", "bacilli"),
    either("cactus", "cacti", "cactuses"), word("coccus", "cocci"),
    either("focus", "foci", "focuses"), either("locus", "loci", "locuses"),
    either("nucleus", "nuclei", "nucleuses"), either("octopus", "octupuses", "octopi"),
    either("radius", "radii", "radiuses"), word("syllabus", "syllabi"),
    either("corpus", "corpora", "corpuses"), word("genus", "genera"), word("alumna", "alumnae"),
    word("vertebra", "vertebrae"), word("differentia", "differentiae"),
    word("minutia", "minutiae"), word("vita", "vitae"), word("larva", "larvae"),
    word("postcava", "postcavae"), word("praecava", "praecavae"), word("uva", "uvae"),
    either("apex", "apices", "apexes"), either("codex", "codices", "codexes"),
    either("index", "indices", "indexes"), either("latex", "latices", "latexes"),
    either("vertex", "vertices", "vertexes"), either("vortex", "vortices", "vortexes"),
    either("appendix", "appendices", "appendixes"), either("radix", "radices", "radixes"),
    either("helix", "helices", "helixes"), exact("axis", "axes"), word("crisis", "crises"),
    one_way("ellipsis", "ellipses"), word("genesis", "geneses"), word("oasis", "oases"),
    word("thesis", "theses"), word("testis", "testes"), word("base", "bases"),
    one_way("basis", "bases"), exact("alias", "aliases"), word("vedalia", "vedalias"),
    exact("use", "uses"), word("abuse", "abuses"), word("cause", "causes"),
    word("clause", "clauses"), word("cruse", "cruses"), word("excuse", "excuses"),
    word("fuse", "fuses"), word("house", "houses"), word("misuse", "misuses"),
    word("muse", "muses"), word("pause", "pauses"), word("ache", "aches"),
    word("topaz", "topazes"), either("buffalo", "buffaloes", "buffalos"),
    word("potato", "potatoes"), word("tomato", "tomatoes"), word("equipment", "equipment"),
    word("information", "information"), word("jeans", "jeans"), word("money", "money"),
    word("news", "news"), word("rice", "rice"), either("dwarf", "dwarfs", "dwarves"),
    either("hoof", "hoofs", "hooves"), word("thief", "thieves"), word("chive", "chives"),
    word("hive", "hives"), word("move", "moves"), word("movie", "movies"),
    word("cookie", "cookies"), word("pretorium", "pretoriums"), word("agenda", "agendas"),
    either("formula", "formulas", "formulae"), word("shoe", "shoes"), exact("toe", "toes"),
    word("graffiti", "graffiti"), exact("ID", "IDs"),
];

/// Endings; an earlier one wins over a later one.
#[rustfmt::skip]
pub(super) const ENDINGS: &[(&str, &str)] = &[
    ("tive", "tives"), ("eaf", "eaves"), ("oaf", "oaves"), ("afe", "aves"), ("arf", "arves"),
    ("rfe", "rves"), ("rf", "rves"), ("lf", "lves"), ("fe", "ves"), ("ay", "ays"), ("ey", "eys"),
    ("oy", "oys"), ("quy", "quies"), ("uy", "uys"), ("y", "ies"), ("eau", "eaux"),
    ("bula", "bulae"), ("dula", "bulae"), ("lula", "bulae"), ("nula", "bulae"), ("vula", "bulae"),
    ("hedron", "hedra"), ("ium", "ia"), ("seum", "seums"), ("eum", "ea"), ("oum", "oa"),
    ("stracum", "straca"), ("dum", "da"), ("elum", "ela"), ("ilum", "ila"), ("olum", "ola"),
    ("ulum", "ula"), ("llum", "lla"), ("ylum", "yla"), ("imum", "ima"), ("ernum", "erna"),
    ("gnum", "gna"), ("brum", "bra"), ("crum", "cra"), ("terum", "tera"), ("serum", "sera"),
    ("trum", "tra"), ("antum", "anta"), ("atum", "ata"), ("entum", "enta"), ("etum", "eta"),
    ("itum", "ita"), ("otum", "ota"), ("utum", "uta"), ("ctum", "cta"), ("ovum", "ova"),
    ("trix", "trices"), ("iasis", "iases"), ("mesis", "meses"), ("kinesis", "kineses"),
    ("resis", "reses"), ("gnosis", "gnoses"), ("opsis", "opses"), ("ysis", "yses"),
    ("ouse", "ouses"), ("lause", "lauses"), ("us", "uses"), ("ch", "ches"), ("io", "ios"),
    ("sh", "shes"), ("ss", "sses"), ("ez", "ezzes"), ("iz", "izzes"), ("tz", "tzes"),
    ("zz", "zzes"), ("ano", "anos"), ("lo", "los"), ("to", "tos"), ("oo", "oos"), ("o", "oes"),
    ("x", "xes"), ("S", "Ses"),
];

/// Words that the inflector writes in capitals before it looks at the ending.
#[rustfmt::skip]
pub(super) const ACRONYMS: &[&str] = &[
    "OK", "UTF8", "HTML", "JSON", "JWT", "ID", "UUID", "SQL", "ACK", "ACL", "ADSL", "AES", "ANSI",
    "API", "ARP", "ATM", "BGP", "BSS", "CCITT", "CHAP", "CIDR", "CIR", "CLI", "CPE", "CPU", "CRC",
    "CRT", "CSMA", "CMOS", "DCE", "DEC", "DES", "DHCP", "DNS", "DRAM", "DSL", "DSLAM", "DTE",
    "DMI", "EHA", "EIA", "EIGRP", "EOF", "ESS", "FCC", "FCS", "FDDI", "FTP", "GBIC", "GEPOF",
    "HDLC", "HTTP", "HTTPS", "IANA", "ICMP", "IDF", "IDS", "IEEE", "IETF", "IMAP", "IP", "IPS",
    "ISDN", "ISP", "LACP", "LAN", "LAPB", "LAPF", "LLC", "MAC", "MC", "MDF", "MIB", "MPLS", "MTU",
    "NAC", "NAT", "NBMA", "NIC", "NRZ", "NRZI", "NVRAM", "OSI", "OSPF", "OUI", "PAP", "PAT", "PC",
    "PIM", "PCM", "PDU", "POP3", "POTS", "PPP", "PPTP", "PTT", "PVST", "RAM", "RARP", "RFC",
    "RIP", "RLL", "ROM", "RSTP", "RTP", "RCP", "SDLC", "SFD", "SFP", "SLARP", "SLIP", "SMTP",
    "SNA", "SNAP", "SNMP", "SOF", "SRAM", "SSH", "SSID", "STP", "SYN", "TDM", "TFTP", "TIA",
    "TOFU", "UDP", "URL", "URI", "USB", "UTP", "VC", "VLAN", "VLSM", "VPN", "W3C", "WAN", "WEP",
    "WPA", "WWW",
];
