//! Clients that run at once, some of them over a crash, and what they were told.

use super::*;
use crate::conformance::{Call, Recorder, Told, check_history};
use crate::event::EventKind;

const CLIENTS: u64 = 6;

/// One client: reads and writes of four hot keys, each value written once.
fn client(engine: &Engine, recorder: &Recorder, seed: u64, calls: usize) {
    let mut random = Random::new(seed);
    for n in 0..calls {
        let key = format!("/{}", random.below(4));
        if random.below(3) == 0 {
            let call = recorder.read(&key);
            let entry = engine.get(key.as_bytes());
            let text = |entry: &Entry| String::from_utf8(entry.value().to_vec()).unwrap();
            recorder.seen(call, entry.map(|entry| (text(&entry), entry.modified())));
            continue;
        }
        let value = (random.below(4) > 0).then(|| format!("{seed}-{n}"));
        let write = match &value {
            Some(value) => Write::put(key.as_str(), value.as_str()),
            None => Write::delete(key.as_str()),
        };
        let call: Call = recorder.write(&key, value.as_deref());
        match engine.commit(vec![write]).wait() {
            Ok(done) => recorder.written(call, done.revision),
            Err(Error::NotFound { .. }) => {}
            Err(Error::Durability { .. }) => return,
            Err(other) => unreachable!("{other:?}"),
        }
    }
}

/// Everything that happened, as the watch of everything tells it.
fn told(engine: &Engine) -> Vec<Told> {
    let after = engine.compaction_floor();
    let mut watcher = engine
        .watch(WatchQuery {
            range: KeyRange::all(),
            after,
        })
        .unwrap();
    let mut told = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    while let std::task::Poll::Ready(events) = watcher.poll_next(&mut cx) {
        told.extend(events.unwrap().iter().map(|event| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let deleted = event.kind() == EventKind::Deleted;
            let value = (!deleted).then(|| text(event.entry().value()));
            (event.revision(), text(event.key()), value)
        }));
    }
    told
}

fn play(engine: &Engine, recorder: &Recorder, seed: u64, calls: usize) {
    std::thread::scope(|scope| {
        for client_seed in 0..CLIENTS {
            scope.spawn(move || client(engine, recorder, seed * CLIENTS + client_seed, calls));
        }
    });
}

#[test]
fn concurrent_clients_see_one_history() {
    for seed in 0..5 {
        let engine = open(&SimulatedDirectory::default());
        let recorder = Recorder::default();
        play(&engine, &recorder, seed, 150);
        assert_eq!(
            check_history(&recorder, &told(&engine)),
            Ok(()),
            "seed {seed}"
        );
    }
}

#[test]
fn what_clients_were_told_before_a_crash_is_true_after_it() {
    let mut random = Random::new(7);
    for seed in 0..30 {
        let disk = SimulatedDirectory::default();
        let engine = open(&disk);
        disk.set_fault(Fault::StopAt(disk.calls() + random.below(600) as u64));
        let recorder = Recorder::default();
        play(&engine, &recorder, seed, 150);
        let again = open(&disk.after_crash(seed));
        assert_eq!(
            check_history(&recorder, &told(&again)),
            Ok(()),
            "seed {seed}"
        );
    }
}
