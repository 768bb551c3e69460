//! Generated expressions beside cel-go: `hack/differential-cel`.
//!
//! Each expression goes to [`peer::Ours`] and to [`peer::Peer`]. Where they differ, the expression is made as small as it
//! differs in the same way, so that one fault is told once. What is agreed is in `agreed.txt`.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;

use generate::{Generator, Piece, Tree};
use peer::{Ours, Outcome, Peer};

use crate::Environment;

mod generate;
mod peer;
mod pool;
mod render;

const AGREED: &str = include_str!("differential/agreed.txt");
/// How many differences of an environment are made small and told.
const TOLD_MAX: usize = 400;

/// Both sides of one environment.
struct Sides {
    name: &'static str,
    ours: Ours,
    peer: Peer,
}

/// In which respect two outcomes differ first.
fn difference(ours: &Outcome, theirs: &Outcome) -> Option<&'static str> {
    if ours.class != theirs.class {
        return Some("class");
    }
    if ours.ty != theirs.ty {
        return Some("type");
    }
    if ours.value != theirs.value {
        let same = parts(&ours.value) == parts(&theirs.value);
        return Some(if same { "order" } else { "value" });
    }
    if ours.cost != theirs.cost {
        return Some("cost");
    }
    // What an error has cost decides nothing: no rule is evaluated after it.
    (ours.class == "ok" && ours.spent != theirs.spent).then_some("spent")
}

/// The parts of a value between commas, in an order of their own.
fn parts(value: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = value
        .split(", ")
        .map(|part| part.trim_matches(['[', ']', '{', '}']))
        .collect();
    parts.sort_unstable();
    parts
}

/// The reason for which a difference is agreed.
fn agreed(
    environment: &str,
    what: &str,
    text: &str,
    ours: &Outcome,
    theirs: &Outcome,
) -> Option<&'static str> {
    let lines = AGREED.lines().filter(|line| !line.starts_with('#'));
    lines.filter(|line| !line.is_empty()).find_map(|line| {
        let [of, kind, needle, error, reason] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("agreed.txt: environment | what | part of the expression | part of an error | reason: {line}");
        };
        let fits = (of == environment || of == "both")
            && kind == what
            && text.contains(needle)
            && match error.strip_prefix("ours: ") {
                Some(own) => ours.error.contains(own),
                None => theirs.error.contains(error),
            };
        fits.then_some(reason)
    })
}

// === impl Sides ===

impl Sides {
    fn start(name: &'static str) -> Self {
        let peers = env::var_os("WHEELHOUSE_CEL_PEERS").expect("run hack/differential-cel");
        let kro = name == "kro";
        let environment = if kro {
            Environment::kro_with_omit()
        } else {
            Environment::admission()
        };
        Self {
            name,
            ours: Ours::new(environment, !kro),
            peer: Peer::start(&PathBuf::from(peers).join(name)),
        }
    }

    fn differ(&mut self, text: &str) -> Option<(&'static str, Outcome, Outcome)> {
        let (ours, theirs) = (self.ours.ask(text), self.peer.ask(text));
        difference(&ours, &theirs).map(|what| (what, ours, theirs))
    }

    /// The smallest expression that is found to differ in the same respect.
    fn smallest(&mut self, tree: Tree, what: &str, ours: &Outcome, theirs: &Outcome) -> Tree {
        let mut tree = tree;
        loop {
            let mut candidates = smaller(&tree);
            candidates.sort_by_key(|it| it.text().len());
            let length = tree.text().len();
            let found = candidates
                .into_iter()
                .filter(|it| it.text().len() < length)
                .find(|it| {
                    self.differ(&it.text()).is_some_and(|(kind, left, right)| {
                        kind == what && left.class == ours.class && right.class == theirs.class
                    })
                });
            match found {
                Some(found) => tree = found,
                None => return tree,
            }
        }
    }

    fn compare(&mut self, count: usize, seed: u64) -> usize {
        let mut generator = Generator::new(&self.ours.environment, self.name == "kro", seed);
        let (mut equal, mut accepted, mut known, mut left) = (0, 0, 0, BTreeMap::new());
        let mut classes: BTreeMap<String, usize> = BTreeMap::new();
        let mut told = 0;
        for _ in 0..count {
            let tree = generator.next();
            let Some((what, ours, theirs)) = self.differ(&tree.text()) else {
                equal += 1;
                let class = self.ours.ask(&tree.text()).class;
                *classes.entry(class).or_default() += 1;
                continue;
            };
            told += 1;
            let small = if told <= TOLD_MAX {
                self.smallest(tree, what, &ours, &theirs)
            } else {
                tree
            };
            let text = small.text();
            let (ours, theirs) = (self.ours.ask(&text), self.peer.ask(&text));
            if let Some(reason) = agreed(self.name, what, &text, &ours, &theirs) {
                let is_open = reason.starts_with("open:");
                *(if is_open { &mut known } else { &mut accepted }) += 1;
            } else {
                left.entry((what, text)).or_insert((ours, theirs));
            }
        }
        let open = count - equal - accepted - known;
        println!(
            "{}: {count} compared, {equal} equal {classes:?}, {accepted} agreed, {known} known, {open} differ",
            self.name
        );
        for ((what, text), (ours, theirs)) in &left {
            println!(
                "{} {what}: {text}\n  ours   {ours:?}\n  theirs {theirs:?}",
                self.name
            );
        }
        open
    }
}

/// The trees that are one step smaller: a part of it in its place, or in the place of a part a part of that.
fn smaller(tree: &Tree) -> Vec<Tree> {
    let mut found = Vec::new();
    for (index, piece) in tree.pieces.iter().enumerate() {
        let Piece::Tree(part) = piece else { continue };
        found.push(part.clone());
        let literals = pool::literals(&part.ty).iter().take(2);
        let simple = literals.map(|text| Tree::leaf(&part.ty, *text));
        for other in smaller(part).into_iter().chain(simple) {
            let mut copy = tree.clone();
            if let Some(place) = copy.pieces.get_mut(index) {
                *place = Piece::Tree(other);
            }
            found.push(copy);
        }
    }
    found
}

fn number(name: &str, default: u64) -> u64 {
    let given = env::var(name).ok().and_then(|text| text.parse().ok());
    given.unwrap_or(default)
}

#[test]
#[ignore = "needs cel-go: hack/differential-cel"]
fn differential_of_generated_expressions() {
    let (count, seed) = (
        number("WHEELHOUSE_EXPRESSIONS", 5000),
        number("WHEELHOUSE_SEED", 1),
    );
    let count = usize::try_from(count).expect("a count");
    let open: usize = ["kubernetes", "kro"]
        .map(|name| Sides::start(name).compare(count, seed))
        .into_iter()
        .sum();
    assert_eq!(open, 0, "expressions that differ from cel-go");
}

#[test]
#[ignore = "needs cel-go: hack/differential-cel"]
fn differential_of_written_expressions() {
    let mut open = 0;
    for name in ["kubernetes", "kro"] {
        let mut sides = Sides::start(name);
        for text in include_str!("differential/written.txt")
            .lines()
            .filter(|line| !line.starts_with('#'))
        {
            let Some((what, ours, theirs)) = sides.differ(text) else {
                continue;
            };
            if agreed(name, what, text, &ours, &theirs).is_none() {
                open += 1;
                println!("{name} {what}: {text}\n  ours   {ours:?}\n  theirs {theirs:?}");
            }
        }
    }
    assert_eq!(open, 0, "expressions that differ from cel-go");
}
