//! Disks that changed what they were given: noticed, or harmless, never served.

use std::collections::BTreeMap;

use super::*;

type Files = BTreeMap<String, Vec<u8>>;

/// A store of several segments, and what is in it: closed in order, or as a crash leaves it.
fn store(closed: bool) -> (Files, Vec<(String, String)>) {
    let disk = SimulatedDirectory::default();
    let engine = open(&disk);
    for n in 0..130 {
        put(
            &engine,
            &format!("/{}", n % 80),
            &format!("{n}{}", "v".repeat(300)),
        );
    }
    engine
        .compact(Revision(engine.revision().0 - 20))
        .wait()
        .unwrap();
    let all = contents(&engine);
    if closed {
        engine.close();
        return (disk.files(), all);
    }
    (disk.files(), all)
}

/// Opens a store, and tells what it serves.
fn served(files: Files) -> Result<Vec<(String, String)>, OpenError> {
    let disk = SimulatedDirectory::with_files(files);
    open_with(&disk, small()).map(|engine| contents(&engine))
}

/// Files whose bytes mean something, and how many of each do.
fn meaning(files: &Files) -> Vec<(String, usize)> {
    let used = |bytes: &[u8]| {
        bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1)
    };
    files
        .iter()
        .map(|(name, bytes)| (name.clone(), used(bytes)))
        .collect()
}

fn flip(files: &Files, name: &str, bit: usize) -> Files {
    let mut files = files.clone();
    files.get_mut(name).unwrap()[bit / 8] ^= 1 << (bit % 8);
    files
}

/// Every bit of headers: `FORMAT`, the manifest, the first sector of each segment, and of each frame the
/// head and the heads of its records.
fn header_bits(files: &Files) -> Vec<(String, usize)> {
    let mut bits = Vec::new();
    for (name, used) in meaning(files) {
        let bytes = &files[&name];
        let segment = name.starts_with("log/");
        let is_head =
            |sector: usize| !segment || sector == 0 || bytes[sector * 512..].starts_with(b"WHF2");
        for byte in 0..used {
            let sector = byte / 512;
            let behind_head = segment && sector > 0 && is_head(sector - 1) && byte % 512 < 44;
            if is_head(sector) || behind_head {
                bits.extend((0..8).map(|bit| (name.clone(), byte * 8 + bit)));
            }
        }
    }
    bits
}

#[test]
fn r04_every_flipped_bit_of_a_header_is_noticed() {
    for closed in [true, false] {
        let (files, all) = store(closed);
        let bits = header_bits(&files);
        // Opening a store for each of a million bits is for the soak; a prime's share is for here.
        let step = if soak() > 1 { 1 } else { 61 };
        let (mut noticed, mut harmless) = (0, 0);
        for (name, bit) in bits.into_iter().step_by(step) {
            match served(flip(&files, &name, bit)) {
                Ok(got) => {
                    assert_eq!(got, all, "{name}, bit {bit} changed what is served");
                    // A prepared segment means nothing yet, and later lines of FORMAT nothing at all.
                    harmless += 1;
                }
                Err(_) => noticed += 1,
            }
        }
        println!("closed {closed}: {noticed} noticed, {harmless} harmless");
        assert!(noticed > 1_500, "only {noticed} were noticed");
        assert!(harmless * 5 < noticed, "{harmless} meant nothing");
    }
}

#[test]
fn r04_a_flipped_bit_anywhere_is_never_served() {
    let mut random = Random::new(11);
    for closed in [true, false] {
        let (files, all) = store(closed);
        let places = meaning(&files);
        let mut noticed = 0;
        for _ in 0..500 * soak() {
            let (name, used) = &places[random.below(places.len())];
            if *used == 0 {
                continue;
            }
            let bit = random.below(used * 8);
            match served(flip(&files, name, bit)) {
                Ok(got) => assert_eq!(got, all, "{name}, bit {bit} changed what is served"),
                Err(_) => noticed += 1,
            }
        }
        assert!(
            noticed > 250,
            "closed {closed}: only {noticed} were noticed"
        );
    }
}

#[test]
fn r04_a_cut_or_lost_file_is_never_served() {
    for closed in [true, false] {
        let (files, all) = store(closed);
        for (name, used) in meaning(&files) {
            let mut without = files.clone();
            without.remove(&name);
            if let Ok(got) = served(without) {
                assert_eq!(got, all, "without {name}");
            }
            for len in (0..used).step_by(used / 40 + 1) {
                let mut cut = files.clone();
                cut.get_mut(&name).unwrap().truncate(len);
                if let Ok(got) = served(cut) {
                    assert_eq!(got, all, "{name} cut to {len} of {used} bytes");
                }
            }
        }
    }
}

/// What a closed store has is sealed, so every page of it is missed.
#[test]
fn r04_lost_pages_are_never_served() {
    let (files, all) = store(true);
    let mut noticed = 0;
    for (name, used) in meaning(&files) {
        for page in (0..used).step_by(512) {
            let mut lost = files.clone();
            let bytes = lost.get_mut(&name).unwrap();
            let end = bytes.len().min(page + 512);
            bytes[page..end].fill(0);
            match served(lost) {
                Ok(got) => assert_eq!(got, all, "{name}, byte {page}"),
                Err(_) => noticed += 1,
            }
        }
    }
    assert!(noticed > 50, "only {noticed} were noticed");
}

/// In the segment that was being written only the last frame can be taken for a torn one.
#[test]
fn an_acknowledged_frame_before_the_last_one_is_missed() {
    let (files, _) = store(false);
    let active = files.keys().filter(|name| name.starts_with("log/"));
    let heads = |bytes: &[u8]| {
        let sectors = bytes.chunks(512).enumerate();
        let heads = sectors.filter(|(_, sector)| sector.starts_with(b"WHF2"));
        heads.map(|(n, _)| n * 512).collect::<Vec<_>>()
    };
    let mut active = active;
    let name = active
        .rfind(|name| !heads(&files[*name]).is_empty())
        .unwrap();
    let heads = heads(&files[name]);
    assert!(heads.len() > 2, "there are some: {heads:?}");
    for pair in heads.windows(2) {
        for sector in (pair[0]..pair[1]).step_by(512) {
            let mut lost = files.clone();
            lost.get_mut(name).unwrap()[sector..sector + 512].fill(0);
            let result = served(lost);
            assert!(
                matches!(result, Err(OpenError::Corrupt { .. })),
                "byte {sector}: {result:?}"
            );
        }
    }
}

#[test]
fn a_segment_in_anothers_place_is_noticed() {
    let (files, _) = store(true);
    let names: Vec<_> = files
        .keys()
        .filter(|name| name.starts_with("log/"))
        .collect();
    assert!(names.len() > 2, "there are several: {names:?}");
    for pair in names.windows(2) {
        let mut swapped = files.clone();
        swapped.insert(pair[0].clone(), files[pair[1]].clone());
        swapped.insert(pair[1].clone(), files[pair[0]].clone());
        let result = served(swapped);
        assert!(
            matches!(result, Err(OpenError::Corrupt { .. })),
            "{pair:?}: {result:?}"
        );
    }
}

/// A file that was put back from a copy, beside others that were not.
#[test]
fn a_manifest_of_the_past_is_noticed() {
    let disk = SimulatedDirectory::default();
    let engine = open(&disk);
    put(&engine, "/a", "1");
    let past = disk.files()["MANIFEST"].clone();
    for n in 0..80 {
        put(&engine, &format!("/{n}"), &"v".repeat(500));
    }
    drop(engine);
    let mut files = disk.files();
    files.insert("MANIFEST".to_owned(), past);
    let result = served(files);
    assert!(
        matches!(result, Err(OpenError::Corrupt { .. })),
        "{result:?}"
    );
}

#[test]
fn noise_is_not_a_store() {
    let mut random = Random::new(12);
    let (files, _) = store(true);
    for (name, used) in meaning(&files) {
        if used == 0 {
            continue;
        }
        for kept in [0, 64, 512] {
            let mut noisy = files.clone();
            for byte in noisy.get_mut(&name).unwrap().iter_mut().skip(kept) {
                *byte = random.bits().to_le_bytes()[0];
            }
            if kept < used {
                assert!(served(noisy).is_err(), "{name}, behind {kept} bytes");
            }
        }
    }
}
