//! Disks that changed what they were given: noticed, or harmless, never served.

use super::*;

/// A closed store, and what is in it.
fn store() -> (Vec<u8>, Vec<(String, String)>) {
    let disk = SimulatedDisk::default();
    let engine = open(&disk);
    for n in 0..60 {
        put(
            &engine,
            &format!("/{}", n % 25),
            &format!("{n}{}", "v".repeat(300)),
        );
    }
    engine
        .compact(Revision(engine.revision().0 - 20))
        .wait()
        .unwrap();
    let all = contents(&engine);
    engine.close();
    (disk.bytes(), all)
}

/// Opens a store, and tells what it serves.
fn served(bytes: Vec<u8>) -> Result<Vec<(String, String)>, OpenError> {
    let disk = SimulatedDisk::with_bytes(bytes);
    Engine::open_on(Box::new(disk), Config::default()).map(|engine| contents(&engine))
}

#[test]
fn a_flipped_bit_is_never_served() {
    let (image, all) = store();
    let mut random = Random::new(11);
    let mut noticed = 0;
    let header = (0..512 * 8).step_by(3);
    let anywhere = (0..400)
        .map(|_| random.below(image.len() * 8))
        .collect::<Vec<_>>();
    // Where records lie, so that not only empty pages are hit.
    let records: Vec<_> = image
        .windows(8)
        .enumerate()
        .filter(|(_, window)| *window == b"vvvvvvvv")
        .map(|(at, _)| (at - 20) * 8 + at % 160)
        .step_by(61)
        .collect();
    assert!(records.len() > 100, "records were found: {}", records.len());
    for bit in header.chain(anywhere).chain(records) {
        let mut bytes = image.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        match served(bytes) {
            Ok(got) => assert!(got == all, "bit {bit} changed what is served"),
            Err(_) => noticed += 1,
        }
    }
    assert!(noticed > 100, "only {noticed} were noticed");
}

#[test]
fn a_cut_file_is_never_served() {
    let (image, all) = store();
    for len in (1..image.len()).step_by(image.len() / 60) {
        if let Ok(got) = served(image[..len].to_vec()) {
            assert!(got == all, "cut to {len} of {} bytes", image.len());
        }
    }
}

#[test]
fn lost_and_torn_pages_are_never_served() {
    let (image, all) = store();
    let mut noticed = 0;
    for page in 0..image.len() / 4096 {
        let mut bytes = image.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0);
        match served(bytes) {
            Ok(got) => assert!(got == all, "page {page}"),
            Err(_) => noticed += 1,
        }
    }
    assert!(noticed > 5, "only {noticed} were noticed");
}

#[test]
fn noise_is_not_a_store() {
    let mut random = Random::new(12);
    for len in [1, 511, 512, 4096, 70_000] {
        let noise: Vec<u8> = (0..len).map(|_| random.bits().to_le_bytes()[0]).collect();
        let mut magic = noise.clone();
        let (image, _) = store();
        let kept = len.min(64);
        magic[..kept].copy_from_slice(&image[..kept]);
        assert!(served(noise).is_err(), "{len} bytes of noise");
        assert!(
            served(magic).is_err(),
            "{len} bytes of noise behind a header"
        );
    }
}
