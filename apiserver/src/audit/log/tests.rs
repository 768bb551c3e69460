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
    let log = Log::open(path, rotation, Arc::clone(&counts)).expect("a log");
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
                .map(|index| log.append(&line(&format!("{writer}-{index}")), When::AtOnce))
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
        assert_eq!(log.append(&line("x"), When::AtOnce).written().await, Ok(()));
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
            log.append(&line(&format!("a-long-text-{index}")), When::AtOnce)
                .written()
                .await,
            Ok(())
        );
    }
    // One line is larger than a file may be: it is written all the same.
    assert_eq!(
        log.append(&line(&"y".repeat(300)), When::AtOnce)
            .written()
            .await,
        Ok(())
    );
    assert_eq!(log.append(&line("z"), When::AtOnce).written().await, Ok(()));
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
    let began = Instant::now();
    let first = log.append(&large, When::AtOnce).written().await;
    assert_eq!(first, Err(Lost), "the pipe holds 64 KiB");
    assert!(began.elapsed() >= WAIT_MAX, "{:?}", began.elapsed());
    for _ in 0..40 {
        let at_once = log.append(&large, When::AtOnce).written().now_or_never();
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
    let log = Log::open("/dev/full", ROTATION, Arc::clone(&counts)).expect("a log");
    assert_eq!(
        log.append(&line("x"), When::AtOnce).written().await,
        Err(Lost)
    );
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
        assert_eq!(log.append(line, When::AtOnce).written().await, Ok(()));
    }
    assert_eq!(fs::read(&path).expect("a log"), lines.concat());
    assert_eq!(read(&counts.lost_by_log), 0);
}

#[tokio::test(start_paused = true)]
async fn flushing_waits_for_what_is_being_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, _) = open(&folder.path().join("audit.log"), ROTATION);
    let patience = Duration::from_mins(1);
    let began = Instant::now();
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

#[tokio::test]
async fn what_nobody_waits_for_is_written_in_its_order_by_whoever_writes_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("audit.log");
    let (log, counts) = open(&path, ROTATION);
    // The thread is at something else: it takes nothing.
    log.shared.state.lock().due = Some(Instant::now() + Duration::from_hours(1));
    let lines: Vec<Vec<u8>> = ["a", "b", "c", "d"].into_iter().map(line).collect();
    for (line, when) in lines
        .iter()
        .zip([When::Later, When::Later, When::AtOnce, When::Later])
    {
        assert_eq!(log.append(line, when).written().await, Ok(()));
    }
    let text = fs::read(&path).expect("a log");
    assert_eq!(text, lines[..3].concat(), "the last one waits for others");
    log.flushed(Duration::from_mins(1)).await;
    assert_eq!(fs::read(&path).expect("a log"), lines.concat());
    let state = log.shared.state.lock();
    assert!(state.queue.is_empty() && state.due.is_none(), "{state:?}");
    assert_eq!(read(&counts.lost_by_log), 0);
}

#[tokio::test]
async fn what_nobody_waits_for_is_written_after_a_moment_and_when_the_log_is_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("audit.log");
    let (log, _) = open(&path, ROTATION);
    let length = || fs::metadata(&path).map_or(0, |file| file.len());
    let short = line("x");
    for count in 1..=3_u64 {
        assert_eq!(log.append(&short, When::Later).written().await, Ok(()));
        while length() < count * short.len() as u64 {
            tokio::task::yield_now().await;
        }
    }
    // A long queue is not kept for the moment that was set for it.
    let before = length();
    log.shared.state.lock().due = Some(Instant::now() + Duration::from_hours(1));
    let long = line(&"y".repeat(LATER_BYTES_MAX));
    assert_eq!(log.append(&long, When::Later).written().await, Ok(()));
    while length() < before + long.len() as u64 {
        tokio::task::yield_now().await;
    }
    log.shared.state.lock().due = Some(Instant::now() + Duration::from_hours(1));
    assert_eq!(log.append(&short, When::Later).written().await, Ok(()));
    drop(log);
    while length() < before + (long.len() + short.len()) as u64 {
        tokio::task::yield_now().await;
    }
}

/// An event of the trials that is made a line of when it is written.
#[derive(Debug)]
struct Made(&'static str);

impl Late for Made {
    fn bytes(&self) -> usize {
        self.0.len()
    }

    fn write_line(&self, lines: &mut Vec<u8>) {
        lines.extend_from_slice(&line(self.0));
    }
}

#[tokio::test]
async fn requests_that_can_go_on_at_once_share_a_write_and_none_is_left_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("audit.log");
    let (log, counts) = open(&path, ROTATION);
    let receipts = ["a", "b", "c"].map(|text| log.append_late(Box::new(Made(text)), When::AtOnce));
    let Receipt::Queued(Queued { batch, .. }) = &receipts[0] else {
        panic!("it is in the queue");
    };
    assert_eq!(batch.count.load(Ordering::Relaxed), 3);
    assert_eq!(
        fs::read(&path).expect("a log"),
        [0_u8; 0],
        "not written yet"
    );
    let written = futures::future::join_all(receipts.map(Receipt::written)).await;
    assert_eq!(written, [Ok(()); 3]);
    let lines = ["a", "b", "c", "d", "e"].map(line);
    assert_eq!(fs::read(&path).expect("a log"), lines[..3].concat());
    // Its client goes away while it waits for others: the thread writes it.
    let left = log.append_late(Box::new(Made("d")), When::AtOnce);
    drop(left);
    let late = log.append_late(Box::new(Made("e")), When::Later);
    assert_eq!(late.written().await, Ok(()));
    while fs::read(&path).expect("a log") != lines.concat() {
        tokio::task::yield_now().await;
    }
    assert_eq!(read(&counts.lost_by_log) + read(&counts.late), 0);
}
