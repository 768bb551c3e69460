//! `wheelhouse store backup`: one revision of a running hub, page by page into a file.
//!
//! # Invariants
//! - The file that was asked for is whole whenever it is there: until then its name ends in `.part`.
//! - A part is continued at the revision that it began at, or begun anew, and then it is said so.

use std::{
    fs::{File, OpenOptions},
    io::{BufReader, BufWriter, Seek, SeekFrom},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use apiserver::offline::{
    self, Header, Keyring,
    backup::{self, Reader, Writer},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use client::Dynamic;
use serde::Deserialize;

use super::{args, keyring};
use crate::{connect, output};

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

/// A backup on its way into its file.
struct Under<'k> {
    header: Header,
    writer: Writer<'k, BufWriter<File>>,
}

/// What became of an attempt.
enum Attempt {
    Whole { revision: u64, count: u64 },
    Expired { revision: u64 },
}

/// Writes a backup.
pub(super) async fn run(arguments: args::Backup) -> Result<()> {
    let keyring = keyring(arguments.encryption_key_file.as_deref())?;
    let part = part_of(&arguments.out);
    if let Some(data_dir) = &arguments.data_dir {
        let file = create(&part).with_context(|| part.display().to_string())?;
        let (header, count) = offline::backup_closed(data_dir, file, keyring.as_ref())
            .with_context(|| data_dir.display().to_string())?;
        return finish(&part, &arguments.out, header.revision, count);
    }
    let hub = connect::hub(&arguments.hub).await?;
    let mut resume = arguments.resume;
    for _ in 0..ATTEMPT_COUNT {
        let under = begin(&hub.dynamic, &part, keyring.as_ref(), resume).await?;
        match copy(&hub.dynamic, under, &part).await? {
            Attempt::Whole { revision, count } => {
                return finish(&part, &arguments.out, revision, count);
            }
            Attempt::Expired { revision } => {
                output::note(&format!(
                    "revision {revision} has left the hub's history; the backup begins anew"
                ));
                resume = false;
            }
        }
    }
    bail!("the hub's history was too short for the backup {ATTEMPT_COUNT} times")
}

/// Gives a whole part its name.
fn finish(part: &Path, out: &Path, revision: u64, count: u64) -> Result<()> {
    let shown = out.display();
    std::fs::rename(part, out).with_context(|| shown.to_string())?;
    output::line(&format!("{shown}: {count} objects of revision {revision}"))
}

fn create(part: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(part)
}

fn part_of(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

async fn begin<'k>(
    hub: &Dynamic,
    part: &Path,
    keyring: Option<&'k Keyring>,
    resume: bool,
) -> Result<Under<'k>> {
    let offer = hub.raw_get(PATH).await.context("the hub's backup")?;
    let offer: Offer = serde_json::from_slice(&offer).context("the hub's answer")?;
    if resume && part.exists() {
        let under = go_on(part, keyring).with_context(|| part.display().to_string())?;
        if under.header.hub_id != offer.hub_id {
            bail!("{} was begun with another hub", part.display());
        }
        let count = under.writer.count();
        output::note(&format!("going on behind {count} objects"));
        return Ok(under);
    }
    let header = Header::now(offer.hub_id, offer.revision);
    let file = create(part).with_context(|| part.display().to_string())?;
    let writer = Writer::begin(BufWriter::new(file), keyring, &header.to_json())
        .with_context(|| part.display().to_string())?;
    Ok(Under { header, writer })
}

/// Reads what there is of a part, and cuts off what was being written when it was interrupted.
fn go_on<'k>(path: &Path, keyring: Option<&'k Keyring>) -> Result<Under<'k>> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let (reader, header) = Reader::begin(BufReader::new(&file), keyring)?;
    let known = Header::parse(&header).context("another version began it")?;
    let part = reader.into_part(header)?;
    let part = part.context("it is whole already")?;
    file.set_len(part.whole_bytes)?;
    file.seek(SeekFrom::Start(part.whole_bytes))?;
    Ok(Under {
        header: known,
        writer: Writer::resume(BufWriter::new(file), keyring, part),
    })
}

async fn copy(hub: &Dynamic, under: Under<'_>, part: &Path) -> Result<Attempt> {
    let Under { header, mut writer } = under;
    let revision = header.revision;
    loop {
        let after = URL_SAFE_NO_PAD.encode(writer.last().unwrap_or_default());
        let path = format!("{PATH}?revision={revision}&after={after}");
        let page = match hub.raw_get_as(&path, "application/octet-stream").await {
            Ok(page) => page,
            Err(error) if error.is_expired() => return Ok(Attempt::Expired { revision }),
            Err(error) => {
                let text = format!(
                    "the hub's backup was interrupted; {} has what came so far: call again with --resume",
                    part.display()
                );
                return Err(error).context(text);
            }
        };
        let records = backup::records_of_page(&page).context("the hub's answer")?;
        if records.is_empty() {
            break;
        }
        for record in &records {
            writer
                .record(record)
                .with_context(|| part.display().to_string())?;
        }
        writer.flush().with_context(|| part.display().to_string())?;
    }
    let finish = || {
        let (file, count) = writer.finish()?;
        let file = file
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok::<_, backup::BackupError>(count)
    };
    let count = finish().with_context(|| part.display().to_string())?;
    Ok(Attempt::Whole { revision, count })
}
