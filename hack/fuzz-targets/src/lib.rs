//! Fuzz targets: one for each parser of bytes that others wrote.
//!
//! A target takes any bytes and must not panic; beyond that it holds what it parsed to a property: a round trip, a
//! second run that changes nothing, or the answer of a slower reference. `hack/fuzz` runs a target under libFuzzer;
//! the tests of this crate replay every seed and a fixed number of mutations of each, so that targets keep compiling
//! and do not fail at the first step. An input that once crashed stays as a test in the crate that owns the parser.
//!
//! In reading order: [`input`] (bytes to parts), [`seeds`] (where the search begins), [`mutate`] (the short, repeatable
//! search of the tests), then the targets by the crate that they look at.

pub mod input;
pub mod mutate;
pub mod seeds;

mod apiserver_targets;
mod cel_targets;
mod client_targets;
mod graph_targets;
mod owner_targets;
mod schema_targets;
mod storage_targets;
mod text_targets;

/// One parser and what must hold of it.
#[derive(Debug)]
pub struct Target {
    /// The name on the command line.
    pub name: &'static str,
    /// Parses, and holds the outcome to the properties.
    pub run: fn(&[u8]),
    /// Inputs that lie at hand.
    pub seeds: &'static [&'static str],
    /// A folder of the corpus with more, and how the names of its files end.
    pub corpus: Option<(&'static str, &'static str)>,
    /// Makes inputs that are no text.
    pub made: Option<fn() -> Vec<Vec<u8>>>,
    /// Words of the format.
    pub words: &'static [&'static str],
}

/// All targets.
pub const TARGETS: &[&Target] = &[
    &text_targets::JSON,
    &text_targets::YAML,
    &text_targets::LABEL_SELECTOR,
    &text_targets::FIELD_SELECTOR,
    &text_targets::QUERY,
    &text_targets::TRACE_HEADERS,
    &apiserver_targets::PATH,
    &apiserver_targets::NEGOTIATE,
    &apiserver_targets::PROTOBUF,
    &apiserver_targets::WEBSOCKET,
    &apiserver_targets::JSON_PATCH,
    &apiserver_targets::SCAN,
    &apiserver_targets::SELECTED_FIELDS,
    &apiserver_targets::SPOKE_LIST,
    &apiserver_targets::CONTINUE_TOKEN,
    &apiserver_targets::TOKEN_FILE,
    &apiserver_targets::JWT,
    &apiserver_targets::ISSUED,
    &apiserver_targets::CERTIFICATE,
    &apiserver_targets::IMPERSONATION,
    &owner_targets::MERGE_PATCH,
    &owner_targets::STRATEGIC_PATCH,
    &owner_targets::APPLY,
    &owner_targets::FIELDS,
    &owner_targets::MANAGED_FIELDS,
    &schema_targets::DEFINITION,
    &schema_targets::JSON_PATH,
    &cel_targets::CEL,
    &cel_targets::RULE,
    &cel_targets::TEMPLATE,
    &graph_targets::SIMPLE_SCHEMA,
    &graph_targets::FIELD_PATH,
    &graph_targets::GRAPH,
    &client_targets::KUBECONFIG,
    &client_targets::DISCOVERY,
    &client_targets::WATCH,
    &client_targets::LIST,
    &storage_targets::RECORD,
    &storage_targets::KEYRING,
    &storage_targets::SEALED,
    &storage_targets::BACKUP,
    &storage_targets::MANIFEST,
    &storage_targets::SEGMENT,
    &storage_targets::LOG,
    &storage_targets::ENVELOPE,
    &storage_targets::STORE_TEXTS,
];
