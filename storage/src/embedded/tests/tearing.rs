//! The last writes of a crash, torn at every byte and in every order of sectors.

use super::*;

/// The workload fits into one segment.
fn roomy() -> Config {
    Config {
        segment_bytes_first: 40 * 1024,
        ..small()
    }
}

/// The file that is written to, and where its frames are.
fn frames(disk: &SimulatedDirectory) -> (String, Vec<usize>) {
    let heads = |bytes: &[u8]| {
        let sectors = bytes.chunks(512).enumerate();
        let heads = sectors.filter(|(_, sector)| sector.starts_with(b"WHF2"));
        heads.map(|(n, _)| n * 512).collect::<Vec<_>>()
    };
    let found = disk
        .files()
        .into_iter()
        .map(|(name, bytes)| (name, heads(&bytes)));
    let mut found = found;
    found.rfind(|(_, heads)| !heads.is_empty()).unwrap()
}

/// A store whose last three frames are of different shapes, and what it holds without them.
fn store() -> (SimulatedDirectory, usize) {
    let disk = SimulatedDirectory::default();
    let engine = open_with(&disk, roomy()).unwrap();
    for n in 0..20 {
        put(&engine, &format!("/{n}"), "kept");
    }
    put(&engine, "/small", "x");
    put(&engine, "/middle", &"y".repeat(1_200));
    put(&engine, "/zeros", &"\0".repeat(2_000));
    let copy = SimulatedDirectory::with_files(disk.files());
    (copy, 20)
}

/// How many of the last three writes there are; those before are all there.
fn kept(files: std::collections::BTreeMap<String, Vec<u8>>) -> Result<usize, OpenError> {
    let engine = open_with(&SimulatedDirectory::with_files(files), roomy())?;
    for n in 0..20 {
        assert!(
            engine.get(format!("/{n}").as_bytes()).is_some(),
            "/{n} is lost"
        );
    }
    let last = ["/small", "/middle", "/zeros"];
    let there: Vec<_> = last
        .iter()
        .map(|key| engine.get(key.as_bytes()).is_some())
        .collect();
    assert!(
        there.is_sorted_by(|a, b| a >= b),
        "a write without the one before: {there:?}"
    );
    put(&engine, "/next", "");
    Ok(there.iter().filter(|there| **there).count())
}

#[test]
fn r03_a_tail_that_is_cut_at_any_byte_is_the_end() {
    let (disk, before) = store();
    let (name, heads) = frames(&disk);
    assert_eq!(heads.len(), before + 3, "each write is a frame");
    let files = disk.files();
    let end = files[&name].iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let mut seen = [0; 4];
    for byte in heads[before]..=end {
        let mut cut = files.clone();
        cut.get_mut(&name).unwrap()[byte..].fill(0);
        let whole = kept(cut).unwrap_or_else(|e| unreachable!("cut at {byte}: {e}"));
        let want = heads[before + 1..]
            .iter()
            .filter(|head| byte >= **head)
            .count();
        assert!(
            whole == want || byte >= end || whole == want + 1,
            "cut at {byte}: {whole}"
        );
        seen[whole] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    println!("cut at {} bytes", end - heads[before]);
}

#[test]
fn r03_a_write_that_is_torn_in_any_order_is_there_or_not() {
    let (disk, before) = store();
    let (name, heads) = frames(&disk);
    let files = disk.files();
    let end = (files[&name].iter().rposition(|byte| *byte != 0).unwrap() + 1).next_multiple_of(512);
    let mut random = Random::new(3);
    for round in 0..400 * soak() {
        // Only the last write can be torn: the one before was synced.
        let last = before + random.below(3);
        let (start, behind) = (heads[last], heads.get(last + 1).copied().unwrap_or(end));
        let mut torn = files.clone();
        let bytes = torn.get_mut(&name).unwrap();
        bytes[behind..].fill(0);
        for sector in (start..behind).step_by(512) {
            if random.below(2) == 0 {
                bytes[sector..sector + 512].fill(0);
            }
        }
        let intact = bytes[start..behind] == files[&name][start..behind];
        let whole = kept(torn).unwrap_or_else(|e| unreachable!("round {round}: {e}"));
        assert_eq!(whole, last - before + usize::from(intact), "round {round}");
    }
}
