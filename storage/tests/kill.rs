//! The store in a process that is killed while it writes, again and again.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use tokio::time::Instant;
use wheelhouse_storage::embedded::{Config, Engine};
use wheelhouse_storage::{KeyRange, RangeQuery, Revision, Store, Write};

/// Names the store's directory to the child. Without it the child's test has nothing to do.
const DIRECTORY: &str = "STORAGE_KILL_DIRECTORY";

const ROUNDS: usize = 12;
const WRITERS: usize = 4;
const KEYS: usize = 5;

/// What a child was told that is durable.
struct Acknowledged {
    revision: Revision,
    key: String,
    value: String,
}

/// Writes until it is killed, and says what was acknowledged. It ends too when nobody listens.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else {
        return;
    };
    let engine = Arc::new(Engine::open(&directory, Config::default()).unwrap());
    let first = engine.revision();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let engine = Arc::clone(&engine);
            scope.spawn(move || {
                for n in 0.. {
                    let key = format!("/{writer}/{}", n % KEYS);
                    let value = format!("{first}-{n}");
                    let write = Write::put(key.as_str(), value.as_str());
                    let revision = engine.commit(vec![write]).wait().unwrap().revision;
                    let line = format!("ack {revision} {key} {value}\n");
                    if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

fn parse(line: &str) -> Option<Acknowledged> {
    // The test harness begins the line on which the child speaks first.
    let mut words = line.rsplit_once("ack ")?.1.split(' ');
    let revision = words.next()?.parse().ok()?;
    Some(Acknowledged {
        revision,
        key: words.next()?.to_owned(),
        value: words.next()?.to_owned(),
    })
}

/// Runs a child until it has acknowledged some writes, kills it, and returns all that it said.
fn run_and_kill(directory: &Path, patience: usize) -> Vec<Acknowledged> {
    let mut child = Command::new(std::env::current_exe().expect("a test has a file"))
        .args(["--exact", "child", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test can be started again");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut said: Vec<_> = lines
        .by_ref()
        .map_while(Result::ok)
        .filter_map(|line| parse(&line))
        .take(patience)
        .collect();
    child.kill().expect("it is ours to kill");
    child.wait().expect("it has been killed");
    // The last line may be cut; what it would have said is durable or not.
    let mut rest: Vec<_> = lines.map_while(Result::ok).collect();
    rest.pop();
    said.extend(rest.iter().filter_map(|line| parse(line)));
    said
}

#[test]
fn a_killed_store_has_lost_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut latest = BTreeMap::new();
    let mut last = Revision(0);
    let mut count = 0;
    for round in 0..ROUNDS {
        let said = run_and_kill(directory.path(), 1 + round * round * 3);
        count += said.len();
        let began = Instant::now();
        let engine = Engine::open(directory.path(), Config::default()).unwrap();
        println!(
            "round {round}: {} acknowledged, open in {:?}",
            said.len(),
            began.elapsed()
        );
        assert!(engine.revision() >= last, "the revision went back");
        for Acknowledged {
            revision,
            key,
            value,
        } in said
        {
            assert!(revision > last, "{revision} was given twice");
            let query = RangeQuery::of(KeyRange::exact(key.as_str())).at(revision);
            let range = engine.range(query).unwrap();
            let entry = range
                .entries
                .first()
                .unwrap_or_else(|| unreachable!("{key} is lost"));
            assert_eq!(
                (entry.value(), entry.modified()),
                (value.as_bytes(), revision),
                "{key}"
            );
            let newest = latest.entry(key).or_insert(revision);
            *newest = revision.max(*newest);
        }
        last = engine.revision();
        for (key, revision) in &latest {
            let entry = engine.get(key.as_bytes()).unwrap();
            assert!(
                entry.modified() >= *revision,
                "{key} is older than {revision}"
            );
        }
    }
    assert!(count > ROUNDS * 10, "the children wrote: {count}");
}
