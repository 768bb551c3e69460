//! Lines are written whole and in order, files are rotated, and what stands still is left standing.

use std::{fs, io::Read as _, path::Path, sync::atomic::AtomicU64};

use futures::FutureExt as _;

use super::*;

const ROTATION: Rotation = Rotation {
    bytes_max: 0,
    count_max: 0,
    age_days_max: 0,
    compresses: false,
};

fn open(path: &Path, rotation: Rotation) -> (Log, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let path = path.to_str().expect("a path");
    let log = Log::open(path, rotation, false, Arc::clone(&counts)).expect("a log");
    (log, counts)
}

fn line(text: &str) -> Vec<u8> {
    format!("{{\"kind\":\"Event\",\"text\":\"{text}\"}}\n").into_bytes()
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("a name")
        })
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lines_of_many_are_written_whole_each_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made/audit.log");
    let (log, counts) = open(&path, ROTATION);
    let log = Arc::new(log);
    let many = (0..8).map(|writer| {
        let log = Arc::clone(&log);
        tokio::task::spawn_blocking(move || {
            let receipts: Vec<Receipt> = (0..500)
                .map(|index| log.append(&line(&format!("{writer}-{index}"))))
                .collect();
            receipts
        })
    });
    for receipts in futures::future::join_all(many).await {
        for receipt in receipts.expect("no panic") {
            assert_eq!(receipt.written().await, Ok(()));
        }
    }
    let text = fs::read_to_string(&path).expect("a log");
    for writer in 0..8 {
        let prefix = format!("{{\"kind\":\"Event\",\"text\":\"{writer}-");
        let own: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with(&prefix))
            .collect();
        let want: Vec<String> = (0..500)
            .map(|index| format!("{prefix}{index}\"}}"))
            .collect();
        assert_eq!(own, want, "writer {writer}");
    }
    assert_eq!(text.lines().count(), 4000);
    assert_eq!(read(&counts.lost_by_log) + read(&counts.late), 0);
}

#[tokio::test]
async fn what_a_crash_has_left_of_a_line_is_cut_off() {
    for (before, want) in [
        ("", ""),
        ("{\"kind\":\"Event\"}\n", "{\"kind\":\"Event\"}\n"),
        (
            "{\"kind\":\"Event\"}\n{\"kind\":\"Event\",\"lev",
            "{\"kind\":\"Event\"}\n",
        ),
        ("{\"kind\":\"Event\",\"lev", ""),
        // Nothing of ours: it stays.
        ("notes", "notes\n"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.log");
        fs::write(&path, before).expect("written");
        let (log, _) = open(&path, ROTATION);
        assert_eq!(log.append(&line("x")).written().await, Ok(()));
        let text = fs::read_to_string(&path).expect("a log");
        assert_eq!(
            text,
            format!("{want}{{\"kind\":\"Event\",\"text\":\"x\"}}\n"),
            "{before}"
        );
    }
}

#[tokio::test]
async fn full_files_are_kept_up_to_a_number_and_compressed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("audit.log");
    let rotation = Rotation {
        bytes_max: 100,
        ..ROTATION
    };
    fs::write(folder.path().join("audit-mine.log"), "").expect("written");
    let (log, _) = open(&path, rotation);
    for index in 0..10 {
        assert_eq!(
            log.append(&line(&format!("a-long-text-{index}")))
                .written()
                .await,
            Ok(())
        );
    }
    // One line is larger than a file may be: it is written all the same.
    assert_eq!(log.append(&line(&"y".repeat(300))).written().await, Ok(()));
    assert_eq!(log.append(&line("z")).written().await, Ok(()));
    let all = names(folder.path());
    assert_eq!(
        all.len(),
        8,
        "five of two lines, a long one, a short one, another's: {all:?}"
    );
    let keep = Rotation {
        count_max: 2,
        compresses: true,
        ..rotation
    };
    file::tidy(&path, keep, jiff::Timestamp::now()).expect("tidied");
    let kept = names(folder.path());
    assert_eq!(kept.len(), 4, "{kept:?}");
    assert_eq!(
        kept.iter().filter(|name| name.ends_with(".log.gz")).count(),
        2,
        "{kept:?}"
    );
    let last = kept
        .iter()
        .rfind(|name| name.ends_with(".log.gz"))
        .expect("a compressed one");
    let mut text = String::new();
    let compressed = fs::File::open(folder.path().join(last)).expect("a file");
    let mut decoder = flate2::read::GzDecoder::new(compressed);
    decoder.read_to_string(&mut text).expect("it is gzip");
    assert!(text.contains("yyy"), "{text}");
    // By age: all of them are older in ten days.
    let old = Rotation {
        age_days_max: 9,
        ..rotation
    };
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(240);
    file::tidy(&path, old, later).expect("tidied");
    assert_eq!(names(folder.path()), ["audit-mine.log", "audit.log"]);
}

/// The story: the reader of a pipe stops reading. Requests waited a second each, for ever.
#[tokio::test]
async fn a_pipe_that_nobody_reads_holds_up_requests_once_and_not_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo runs").success());
    // Held open, and never read.
    let mut options = fs::OpenOptions::new();
    let reader = options.read(true).write(true).open(&path).expect("a pipe");
    let (log, counts) = open(&path, ROTATION);
    let large = line(&"x".repeat(1 << 20));
    let began = tokio::time::Instant::now();
    let first = log.append(&large).written().await;
    assert_eq!(first, Err(Lost), "the pipe holds 64 KiB");
    assert!(began.elapsed() >= WAIT_MAX, "{:?}", began.elapsed());
    for _ in 0..40 {
        let at_once = log.append(&large).written().now_or_never();
        assert_eq!(at_once, Some(Err(Lost)), "nobody waits while it stands");
    }
    assert!(read(&counts.lost_by_queue) > 0, "the queue is bounded");
    assert_eq!(read(&counts.late) + read(&counts.lost_by_queue), 41);
    drop(log);
    drop(reader);
}

#[tokio::test]
async fn a_full_disk_loses_events_and_counts_them() {
    let counts = Arc::new(Counts::default());
    let log = Log::open("/dev/full", ROTATION, false, Arc::clone(&counts)).expect("a log");
    assert_eq!(log.append(&line("x")).written().await, Err(Lost));
    assert_eq!(read(&counts.lost_by_log), 1);
}

/// The story: the hub may write the log, but nothing else in its folder. The first full file was the last.
#[tokio::test]
async fn a_full_file_that_cannot_be_renamed_is_written_on() {
    let folder = tempfile::tempdir().expect("a folder");
    // With a time in it, the name is longer than any file system takes.
    let path = folder.path().join(format!("{}.log", "a".repeat(250)));
    let rotation = Rotation {
        bytes_max: 50,
        ..ROTATION
    };
    let (log, counts) = open(&path, rotation);
    let lines: Vec<Vec<u8>> = (0..10)
        .map(|index| line(&format!("text-{index}")))
        .collect();
    for line in &lines {
        assert_eq!(log.append(line).written().await, Ok(()));
    }
    assert_eq!(fs::read(&path).expect("a log"), lines.concat());
    assert_eq!(read(&counts.lost_by_log), 0);
}

#[tokio::test(start_paused = true)]
async fn flushing_waits_for_what_is_being_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, _) = open(&folder.path().join("audit.log"), ROTATION);
    let patience = Duration::from_mins(1);
    let began = tokio::time::Instant::now();
    log.flushed(patience).await;
    assert_eq!(began.elapsed(), Duration::ZERO, "nothing is being written");
    // A request is at it: its line has left the queue.
    log.shared.state.lock().writer = Writer::Somebody;
    log.flushed(patience).await;
    assert_eq!(began.elapsed(), patience, "it does not end");
    let (flushed, ()) = tokio::join!(log.flushed(patience), async {
        log.shared.drain(TURNS_MAX);
    });
    assert_eq!(flushed, ());
    assert_eq!(began.elapsed(), patience, "it has ended");
    assert_eq!(log.shared.state.lock().writer, Writer::Nobody);
}
