//! `wheelhouse fleet waiting`: the instances that are not ready, each with the node in the way.

use anyhow::Result;
use serde_json::json;

use super::{held::Waiting, matrix, print};
use crate::{
    args, connect,
    output::{self, Format},
};

/// Characters of a message in a table.
const MESSAGE_CHAR_COUNT_MAX: usize = 120;

/// Prints them.
pub(super) async fn show(arguments: &args::FleetWaiting) -> Result<()> {
    let hub = connect::hub(&arguments.hub).await?;
    let lines = matrix::lines(&hub.dynamic).await?;
    for line in &lines {
        if let Some(failure) = &line.failure {
            output::note(&format!("{}: not read: {failure}", line.definition));
        }
    }
    let waiting: Vec<Waiting> = lines.into_iter().flat_map(|line| line.waiting).collect();
    match arguments.output {
        None | Some(Format::Wide) => print(&table(&waiting, arguments.output)),
        Some(Format::Name) => waiting.iter().try_for_each(|it| output::line(&it.place())),
        Some(format) => output::object(&json!({ "waiting": waiting }), format),
    }
}

fn table(waiting: &[Waiting], format: Option<Format>) -> Vec<Vec<String>> {
    let head = [
        "CLUSTER", "KIND", "INSTANCE", "STATE", "NODE", "REASON", "MESSAGE",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for it in waiting {
        let message = if format == Some(Format::Wide) {
            it.message.clone()
        } else {
            it.message.chars().take(MESSAGE_CHAR_COUNT_MAX).collect()
        };
        let node = Some(it.node.as_str()).filter(|node| !node.is_empty());
        lines.push(vec![
            it.cluster.clone(),
            it.kind.clone(),
            it.place(),
            it.state.clone(),
            node.unwrap_or("-").to_owned(),
            it.reason.clone(),
            message,
        ]);
    }
    lines
}
