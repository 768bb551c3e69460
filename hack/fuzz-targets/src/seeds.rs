//! Where the search begins: the seeds in the code, and files of the corpus where it is at hand.
//!
//! The corpus is not part of the tree: it is looked for beside it, or where `WHEELHOUSE_CORPUS` says. What is not there
//! is told by [`missing`].

use std::io;
use std::path::{Path, PathBuf};

use crate::Target;

/// The largest file that is taken as a seed; larger ones slow the search down more than they help.
const SEED_BYTES_MAX: u64 = 64 * 1024;

/// The folder of the corpus, whether it is there or not.
pub fn corpus() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    std::env::var_os("WHEELHOUSE_CORPUS").map_or(beside, PathBuf::from)
}

/// The folder that a target wants and that is not there.
pub fn missing(target: &Target) -> Option<PathBuf> {
    let (folder, _) = target.corpus?;
    let folder = corpus().join(folder);
    (!folder.is_dir()).then_some(folder)
}

/// All seeds of a target, those of the code and those that it makes first.
///
/// # Errors
/// What the file system says of a corpus that is there.
pub fn all(target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let mut seeds: Vec<Vec<u8>> = target
        .seeds
        .iter()
        .map(|seed| seed.as_bytes().to_vec())
        .collect();
    if let Some(made) = target.made {
        seeds.extend(made());
    }
    if let Some((folder, ending)) = target.corpus
        && missing(target).is_none()
    {
        let mut files = Vec::new();
        collect(&corpus().join(folder), ending, &mut files)?;
        files.sort();
        for file in files {
            if std::fs::metadata(&file)?.len() <= SEED_BYTES_MAX {
                seeds.push(std::fs::read(&file)?);
            }
        }
    }
    Ok(seeds)
}

/// Writes the seeds of a target into a folder, and its dictionary beside it.
///
/// # Errors
/// What the file system says.
pub fn write(target: &Target, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (index, seed) in all(target)?.iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{index:04}")), seed)?;
    }
    let words: String = target
        .words
        .iter()
        .map(|word| dictionary_line(word))
        .collect();
    std::fs::write(folder.with_extension("dict"), words)
}

/// A word as libFuzzer's dictionaries have it.
fn dictionary_line(word: &str) -> String {
    let escaped: Vec<String> = word.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
    let escaped = escaped.concat();
    format!("\"{escaped}\"\n")
}

fn collect(folder: &Path, ending: &str, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, ending, files)?;
        } else if path.to_string_lossy().ends_with(ending) {
            files.push(path);
        }
    }
    Ok(())
}
