//! What spokes have of a kind that they keep themselves, for a list over all clusters.

use api::LogicalCluster;
use bytes::Bytes;

use crate::refusal::Refusal;
use crate::respond::Held;

/// The parameter by which a client takes what there is.
pub(crate) const PARTIAL: &str = "partial";

/// What came of asking spokes for their part of a list.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// In the order of the clusters' names.
    pub(crate) lists: Vec<SpokeList>,
    /// Why others are not among them.
    pub(crate) failed: Vec<Failed>,
    /// Whether one of them found something wrong with the question.
    pub(crate) is_rejected: bool,
    /// The answer where there is nothing else to tell: what the spokes found wrong with the question, that none lets the user ask it, or that none
    /// has the kind.
    pub(crate) otherwise: Option<Refusal>,
    /// Counts the list until its answer is sent.
    pub(crate) held: Option<Held>,
}

/// The list of one spoke.
#[derive(Debug, Clone)]
pub(crate) struct SpokeList {
    /// Whose it is.
    pub(crate) cluster: LogicalCluster,
    /// The kind of those of its objects that do not say it; empty where the list does not.
    pub(crate) kind: String,
    /// Its own kind.
    pub(crate) list_kind: String,
    /// Each with its type and the annotation of its cluster.
    pub(crate) items: Vec<Bytes>,
}

/// A spoke that is not among those that answered.
#[derive(Debug, Clone)]
pub(crate) struct Failed {
    pub(crate) cluster: LogicalCluster,
    /// Why, for the client.
    pub(crate) reason: String,
}
