//! `wheelhouse store backup`: one revision of a running hub, page by page into a file.
//!
//! # Invariants
//! - The file that was asked for is whole whenever it is there: until then its name ends in `.part`.
//! - One process writes a part: whoever opens it holds a lock until it has its name.
//! - A part is a file of whoever calls, under that one name: what somebody else has put in its place, a link for example, is neither
//!   followed nor written to.

use std::{
    fs::{File, Permissions, TryLockError},
    io::{BufWriter, Seek},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use apiserver::offline::{
    self, Header, Keyring,
    backup::{self, Writer},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use client::Dynamic;
use serde::Deserialize;

use super::{args, keyring};
use crate::{
    connect::{self, HubFlags},
    output,
};

/// Where a hub gives its store.
const PATH: &str = "/wheelhouse/backup";
/// How often a backup begins anew because its revision left the hub's history: each attempt had five minutes.
const ATTEMPT_COUNT: u32 = 3;

/// What the hub says of a backup that is to begin.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Offer {
    revision: u64,
    hub_id: String,
}

/// What became of an attempt.
enum Attempt {
    Whole { revision: u64, count: u64 },
    Expired { revision: u64 },
}

/// A file on its way to its name, which no other process writes meanwhile.
struct Part {
    path: PathBuf,
    file: File,
}

/// Writes a backup.
pub(super) async fn run(arguments: args::Backup) -> Result<()> {
    let keyring = keyring(arguments.encryption_key_file.as_deref())?;
    if arguments.out.is_dir() {
        bail!(
            "{} is a directory: --out names a file",
            arguments.out.display()
        );
    }
    let part = Part::open(&arguments.out)?;
    let written = match &arguments.data_dir {
        Some(data_dir) => offline::backup_closed(data_dir, part.begin()?, keyring.as_ref())
            .map(|(header, count)| (header.revision, count))
            .with_context(|| data_dir.display().to_string()),
        None => running(&arguments.hub, &part, keyring.as_ref()).await,
    };
    if written.is_err() {
        // An incomplete file is of no use. The error is what counts.
        drop(std::fs::remove_file(&part.path));
    }
    let (revision, count) = written?;
    part.finish(&arguments.out, revision, count)
}

/// Copies the store of a running hub; returns the revision and how many objects it has.
async fn running(hub: &HubFlags, part: &Part, keyring: Option<&Keyring>) -> Result<(u64, u64)> {
    let hub = connect::hub(hub).await?;
    for _ in 0..ATTEMPT_COUNT {
        match copy(&hub.dynamic, part, keyring).await? {
            Attempt::Whole { revision, count } => return Ok((revision, count)),
            Attempt::Expired { revision } => output::note(&format!(
                "revision {revision} has left the hub's history; starting the backup again"
            )),
        }
    }
    bail!("the hub's history was too short for the backup {ATTEMPT_COUNT} times")
}

impl Part {
    /// Takes the part of a file, whatever it holds.
    fn open(out: &Path) -> Result<Self> {
        let mut path = out.as_os_str().to_owned();
        path.push(".part");
        let path = PathBuf::from(path);
        let open = || {
            let file = offline::open_own(&path)?;
            file.set_permissions(Permissions::from_mode(0o600))?;
            let lock = file.try_lock();
            // What another one has given its name meanwhile is not to be written any more.
            let is_here = std::fs::symlink_metadata(&path).is_ok_and(|now| {
                file.metadata()
                    .is_ok_and(|file| (file.dev(), file.ino()) == (now.dev(), now.ino()))
            });
            match lock {
                Ok(()) if is_here => Ok(Some(file)),
                Ok(()) | Err(TryLockError::WouldBlock) => Ok(None),
                Err(TryLockError::Error(error)) => Err(error),
            }
        };
        let file = open().with_context(|| path.display().to_string())?;
        let Some(file) = file else {
            bail!("another backup writes {}", path.display());
        };
        Ok(Self { path, file })
    }

    /// Begins it anew.
    fn begin(&self) -> Result<File> {
        let begin = || {
            let mut file = self.file.try_clone()?;
            file.set_len(0)?;
            file.rewind()?;
            Ok::<_, std::io::Error>(file)
        };
        begin().with_context(|| self.path.display().to_string())
    }

    /// Gives it its name, once it is whole.
    fn finish(self, out: &Path, revision: u64, count: u64) -> Result<()> {
        let shown = out.display();
        let rename = || {
            std::fs::rename(&self.path, out)?;
            let folder = out.parent().filter(|it| !it.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        rename().with_context(|| shown.to_string())?;
        output::line(&format!("{shown}: {count} objects of revision {revision}"))
    }
}

async fn copy(hub: &Dynamic, part: &Part, keyring: Option<&Keyring>) -> Result<Attempt> {
    let shown = || part.path.display().to_string();
    let offer = hub.raw_get(PATH).await.context("the hub's backup")?;
    let Offer { revision, hub_id } = serde_json::from_slice(&offer).context("the hub's answer")?;
    let header = Header::now(hub_id, revision);
    let file = BufWriter::new(part.begin()?);
    let mut writer = Writer::begin(file, keyring, &header.to_json()).with_context(shown)?;
    loop {
        let after = URL_SAFE_NO_PAD.encode(writer.last().unwrap_or_default());
        let path = client::Path::from(PATH)
            .with("revision", Some(&revision.to_string()))
            .with("after", Some(&after));
        let page = match hub.raw_get_as(path, "application/octet-stream").await {
            Ok(page) => page,
            Err(error) if error.is_expired() => return Ok(Attempt::Expired { revision }),
            Err(error) => return Err(error).context("the hub's backup was interrupted"),
        };
        let records = backup::records_of_page(&page).context("the hub's answer")?;
        if records.is_empty() {
            break;
        }
        for record in &records {
            writer.record(record).with_context(shown)?;
        }
    }
    let finish = || {
        let (file, count) = writer.finish()?;
        let file = file
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok::<_, backup::BackupError>(count)
    };
    let count = finish().with_context(shown)?;
    Ok(Attempt::Whole { revision, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_writes_a_part_and_its_owner_alone_may_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("hub.backup");
        std::fs::write(folder.path().join("hub.backup.part"), "old").expect("a file");
        let part = Part::open(&out).expect("the part");
        let other = Part::open(&out).err().expect("it is taken").to_string();
        assert!(other.contains("another backup writes"), "{other}");
        drop(part.begin().expect("it is begun"));
        part.finish(&out, 1, 0).expect("it has its name");
        let written = std::fs::metadata(&out).expect("the file");
        assert_eq!((written.mode() & 0o777, written.len()), (0o600, 0));
        drop(Part::open(&out).expect("the next one"));
    }

    #[test]
    fn what_was_planted_in_the_place_of_a_part_is_left_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let (out, part) = (
            folder.path().join("hub.backup"),
            folder.path().join("hub.backup.part"),
        );
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "precious").expect("a file");
        let nowhere = folder.path().join("nowhere");
        let link = |to: &Path| std::os::unix::fs::symlink(to, &part);
        let plants: [(&str, &dyn Fn() -> std::io::Result<()>); 4] = [
            ("a link", &|| link(&victim)),
            ("a link to nowhere", &|| link(&nowhere)),
            ("a hard link", &|| std::fs::hard_link(&victim, &part)),
            ("a folder", &|| std::fs::create_dir(&part)),
        ];
        for (what, plant) in plants {
            plant().expect(what);
            assert!(Part::open(&out).is_err(), "{what}");
            let left = std::fs::read_to_string(&victim).expect("the victim");
            assert_eq!(left, "precious", "{what}");
            assert!(!nowhere.exists(), "{what}");
            let planted = std::fs::symlink_metadata(&part).expect("it is left");
            if planted.is_dir() {
                std::fs::remove_dir(&part).expect("the folder");
            } else {
                std::fs::remove_file(&part).expect("the link");
            }
        }
    }
}
