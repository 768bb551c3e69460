//! `wheelhouse store check`: a store's directory, read by a second reader.

use anyhow::{Result, bail};
use apiserver::offline::{self, Checked};
use serde_json::{Value, json};

use super::{Unusable, args, keyring};
use crate::output;

/// Checks, and fails where something is wrong.
pub(super) fn run(arguments: &args::Check) -> Result<()> {
    let keyring = match keyring(arguments.encryption_key_file.as_deref()) {
        Ok(keyring) => keyring,
        Err(error) => return Err(Unusable(format!("{error:#}")).into()),
    };
    let checked = offline::check(&arguments.data_dir, keyring.as_ref());
    let checked = checked.map_err(|error| Unusable(format!("{:#}", anyhow::Error::new(error))))?;
    match arguments.output {
        args::ReportFormat::Text => text(&checked)?,
        args::ReportFormat::Json => output::line(&serde_json::to_string_pretty(&value(&checked))?)?,
    }
    let count = checked.report.findings.len();
    if count > 0 {
        bail!("the store is not sound: {count} findings");
    }
    Ok(())
}

fn text(checked: &Checked) -> Result<()> {
    let report = &checked.report;
    for (name, value) in [
        ("store", report.store_id.clone()),
        ("epoch", report.epoch.to_string()),
        ("floor", report.floor.to_string()),
        ("revision", report.revision.to_string()),
        ("segments", report.segments.to_string()),
        ("frames", report.frames.to_string()),
        ("records", report.records.to_string()),
        ("keys", report.keys.to_string()),
        ("log hash", report.log_hash.clone()),
        ("state hash", report.state_hash.clone()),
        (
            "index",
            if checked.compared {
                "compared"
            } else {
                "not compared"
            }
            .to_owned(),
        ),
    ] {
        output::line(&format!("{name:<12}{value}"))?;
    }
    for key in &checked.sealed {
        let role = if key.seals { ", seals" } else { "" };
        output::line(&format!(
            "{:<12}{} ({}{role}): {} records",
            "key", key.name, key.id, key.records
        ))?;
    }
    for finding in &report.findings {
        output::line(&format!(
            "WRONG       {}: {}",
            finding.place, finding.reason
        ))?;
    }
    if report.is_sound() {
        output::line("sound")?;
    }
    Ok(())
}

fn value(checked: &Checked) -> Value {
    let report = &checked.report;
    let findings = report.findings.iter();
    let findings: Vec<Value> = findings
        .map(|finding| json!({ "place": finding.place, "reason": finding.reason }))
        .collect();
    let keys = checked.sealed.iter();
    let keys: Vec<Value> = keys
        .map(|key| {
            json!({ "name": key.name, "id": key.id, "seals": key.seals, "records": key.records })
        })
        .collect();
    json!({
        "sound": report.is_sound(),
        "storeId": report.store_id,
        "epoch": report.epoch,
        "floor": report.floor.0,
        "revision": report.revision.0,
        "segments": report.segments,
        "frames": report.frames,
        "records": report.records,
        "keys": report.keys,
        "logHash": report.log_hash,
        "stateHash": report.state_hash,
        "indexCompared": checked.compared,
        "encryptionKeys": keys,
        "findings": findings,
    })
}
