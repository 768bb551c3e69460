//! Reads the objects that an instance refers to and does not own, by a watch that starts with the first reader.

use std::{collections::HashSet, sync::Arc};

use api::selector::{FieldSelector, Selector};
use client::Client;
use graph::Wanted;
use tokio_util::sync::CancellationToken;

use crate::state::{
    actors::Actor,
    externals::{Found, Reference},
    keys::InstanceKey,
    target::Target,
};

/// Reads what a reference points to, in an actor's name.
pub(crate) fn read(target: &Target, actor: &Actor, wanted: &Wanted, reader: &InstanceKey) -> Found {
    let reference = reference(target, actor, wanted);
    let selected = match reference.selected() {
        Ok(selected) => selected,
        Err(reason) => return Found::Refused(reason),
    };
    let client = match actor.dynamic(target.place(&wanted.gvr)) {
        Ok(dynamic) => dynamic.client(),
        Err(error) => return Found::Refused(error.to_string()),
    };
    let end = target.token.child_token();
    if let Some(found) = target.externals.read(&reference, reader, &end) {
        return found;
    }
    start(target, client, reference, selected, end);
    Found::Waiting
}

/// Ends what a reader no longer reads: `wanted` is all that it does.
pub(crate) fn keep(target: &Target, actor: &Actor, wanted: &[Wanted], reader: &InstanceKey) {
    let kept: HashSet<Reference> = wanted
        .iter()
        .map(|wanted| reference(target, actor, wanted))
        .collect();
    target.externals.retain(reader, &kept);
}

fn reference(target: &Target, actor: &Actor, wanted: &Wanted) -> Reference {
    Reference {
        endpoint: target.endpoint(&wanted.gvr, &wanted.namespace),
        wanted: wanted.target.clone(),
        user: actor.user().map(Arc::clone),
    }
}

fn start(
    target: &Target,
    client: &Client,
    reference: Reference,
    (label_selector, field_selector): (Option<Selector>, Option<FieldSelector>),
    end: CancellationToken,
) {
    let mut config = target.source(&reference.endpoint.gvr, label_selector);
    config.client = client.clone();
    config.endpoint = reference.endpoint.clone();
    config.field_selector = field_selector;
    let ended = end.clone();
    let mut events = target.follow(config, end);
    let cache = Arc::clone(&target.externals);
    let queue = Arc::clone(&target.queue);
    target.tasks().spawn("externals", async move {
        while let Some(event) = events.recv().await {
            if ended.is_cancelled() {
                return; // what is read under this reference now is another watch's
            }
            for instance in cache.take(&reference, event) {
                queue.add(instance);
            }
        }
    });
}
