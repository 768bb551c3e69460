//! A tour of kubectl, taken at a spoke's path and at the spoke itself, side by side: the two print the same, but for the
//! differences that `fixtures/tour.txt` gives a reason for.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use regex::Regex;
use serde_json::Value;
use wheelhouse_tests::{Hub, Kubectl, Spoke, eventually, kubectl::Ran, spoke::Options};

use super::deploy;

const TOUR: &str = include_str!("../../fixtures/tour.txt");

/// What differs between two runs of one command, each a pattern and what stands for it.
const MASKED: &[(&str, &str)] = &[
    ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
    (
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [+]\d{4})?( UTC)?",
        "TIME",
    ),
    (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    (r"(?m)^[EWI]\d{4} [\d:.]+ +\d+ ", "LOG "),
    (r#"((?i:resource ?version)"?: *"?)\d+"#, "${1}VERSION"),
    (r"\b10\.0\.0\.\d+", "ADDRESS"),
    (r"(LIVE|MERGED)-\d+", "$1"),
    (r"\beyJ[\w.-]+", "TOKEN"),
    (r"SHA256=[0-9a-f]{64}", "SHA256"),
    (r"kube-api-access-\w{5}", "kube-api-access"),
    (r"\b(\d+m)?\d+s\b", "AGE"),
    (r"(?i)(node_?port:? +(<unset> +|\S+ +)?)3\d{4}", "${1}PORT"),
    (r":3\d{4}/TCP", ":PORT/TCP"),
    // Columns are as wide as what was masked in them.
    (r"[ \t]+", " "),
];

/// One command of the tour.
#[derive(Debug, Default)]
struct Stop {
    command: String,
    input: String,
    /// Why the outputs differ, where that is agreed.
    differs: Option<String>,
}

/// What makes the outputs of one tour comparable with those of the other.
struct Tour {
    kubectl: Kubectl,
    name: String,
    server: String,
    csr: String,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tour_of_kubectl_prints_the_same_at_the_path_and_at_the_spoke() {
    let without_controllers = Options {
        // They would change what is printed while it is printed.
        without_controllers: true,
        ..Options::default()
    };
    let (hub, east) = tokio::join!(Hub::start(), Spoke::start_with("east", without_controllers));
    hub.join(&east).await;
    // Its namespace is there for both tours.
    deploy::manifests_are_admitted(&east.kubectl()).await;
    let stops = stops();
    assert!(stops.len() >= 80, "a tour of {} commands", stops.len());
    let_in(&hub, &["joe", "ann"]).await;

    let csr = signing_request();
    let tour = |kubectl: Kubectl, name: &str, server: String| Tour {
        kubectl: kubectl.env("KUBE_EDITOR", "sed -i s/before/after/"),
        name: name.to_owned(),
        server,
        csr: csr.clone(),
    };
    let path = format!("{}/clusters/east", hub.server());
    let ours = tour(hub.at("east"), "tour-a", path);
    let peer = tour(east.kubectl(), "tour-b", east.server().to_owned());
    let (ours, peers) = tokio::join!(ours.take(&stops), peer.take(&stops));

    let mut findings = Vec::new();
    for (stop, (ours, peers)) in stops.iter().zip(ours.iter().zip(&peers)) {
        let command = &stop.command;
        match (&stop.differs, ours == peers) {
            (None, true) | (Some(_), false) => {}
            (None, false) => findings.push(format!("{command}\n{}", difference(ours, peers))),
            (Some(reason), true) => {
                findings.push(format!("{command}: no difference any more: {reason}"));
            }
        }
    }
    let count = findings.len();
    assert!(
        findings.is_empty(),
        "{count} differ:\n{}",
        findings.join("\n\n")
    );
}

/// Lets users in at the path, as they are let in at the spoke.
async fn let_in(hub: &Hub, users: &[&str]) {
    let role = [
        "create",
        "clusterrole",
        "access",
        "--verb=access",
        "--resource=spokes.wheelhouse.dev",
    ];
    let root = hub.root();
    root.must(&role).await;
    let users: Vec<String> = users.iter().map(|user| format!("--user={user}")).collect();
    let mut binding = vec![
        "create",
        "clusterrolebinding",
        "access",
        "--clusterrole=access",
    ];
    binding.extend(users.iter().map(String::as_str));
    root.must(&binding).await;
    let known = [
        "auth",
        "can-i",
        "access",
        "spokes.wheelhouse.dev/east",
        "--as",
        "ann",
    ];
    eventually("they are let in", || async { root.run(&known).await.ok() }).await;
}

/// Reads the tour.
fn stops() -> Vec<Stop> {
    let mut stops: Vec<Stop> = Vec::new();
    for line in TOUR
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(command) = line.strip_prefix("$ kubectl ") {
            stops.push(Stop {
                command: command.to_owned(),
                ..Stop::default()
            });
            continue;
        }
        let stop = stops.last_mut().expect("a command stands first");
        match (line.strip_prefix("| "), line.strip_prefix("! ")) {
            (Some(input), _) => stop.input.extend([input, "\n"]),
            (None, reason) => {
                assert!(reason.is_some(), "no line of a tour: {line}");
                stop.differs = reason.map(str::to_owned);
            }
        }
    }
    stops
}

/// Splits a command into words; single quotes hold one together.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quoted, mut begun) = (String::new(), false, false);
    for character in command.chars() {
        match character {
            '\'' => (quoted, begun) = (!quoted, true),
            ' ' if !quoted => {
                if std::mem::take(&mut begun) {
                    words.push(std::mem::take(&mut word));
                }
            }
            other => {
                word.push(other);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

fn signing_request() -> String {
    let key = rcgen::KeyPair::generate().expect("a key");
    let parameters = rcgen::CertificateParams::default();
    let request = parameters.serialize_request(&key).expect("a request");
    STANDARD.encode(request.pem().expect("it is PEM"))
}

/// The lines that only one of them has.
fn difference(ours: &str, peers: &str) -> String {
    let only = |mark: char, one: &str, other: &str| -> Vec<String> {
        let others: Vec<&str> = other.lines().collect();
        let lines = one.lines().filter(|line| !others.contains(line));
        lines
            .map(|line| format!("  {mark} {line}"))
            .take(12)
            .collect()
    };
    let lines = [only('-', peers, ours), only('+', ours, peers)].concat();
    if lines.is_empty() {
        return format!("  in another order: {ours}");
    }
    lines.join("\n")
}

// === impl Tour ===

impl Tour {
    /// Runs every command, and returns what each printed.
    async fn take(&self, stops: &[Stop]) -> Vec<String> {
        let masks: Vec<(Regex, &str)> = MASKED
            .iter()
            .map(|(pattern, mask)| (Regex::new(pattern).expect("a pattern"), *mask))
            .collect();
        let mut printed = Vec::new();
        for stop in stops {
            let fill = |text: &str| text.replace("{t}", &self.name).replace("{csr}", &self.csr);
            let words = words(&fill(&stop.command));
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let input = fill(&stop.input);
            let ran = self.kubectl.run_with_input(&words, &input).await;
            printed.push(self.masked(&ran, &masks));
        }
        printed
    }

    fn masked(&self, ran: &Ran, masks: &[(Regex, &str)]) -> String {
        // Objects have no order of fields.
        let stdout = serde_json::from_str::<Value>(&ran.stdout)
            .map_or_else(|_text| ran.stdout.clone(), |json| format!("{json:#}"));
        let whole = format!("exit {}\n{stdout}\nstderr:\n{}", ran.code, ran.stderr);
        let whole = whole
            .replace(&self.server, "SERVER")
            .replace(&self.name, "TOUR");
        masks.iter().fold(whole, |text, (pattern, mask)| {
            pattern.replace_all(&text, *mask).into_owned()
        })
    }
}
