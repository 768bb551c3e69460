//! The flags of kro's controller that mean something here, with kro's names and defaults.
//!
//! Source: kro v0.9.4 `cmd/controller/main.go`.

use api::{
    kro::{FeatureGates, parse_switch},
    validation::is_label_value,
    wheelhouse::{COLLECTION_DIMENSIONS_BOUND, COLLECTION_SIZE_BOUND, REVISION_COUNT_BOUND},
};
use clap::{Args, value_parser};
use syncer::Switches;

/// What differs from kro's defaults. A Spoke may say otherwise for its own cluster (`spec.kro`).
#[derive(Debug, Args)]
#[command(next_help_heading = "As kro's controller has them")]
pub(crate) struct Flags {
    #[command(flatten)]
    gates: Gates,
    /// Delete the CRD of a definition with it, once it has no instances.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = parse_switch, action = clap::ArgAction::Set)]
    allow_crd_deletion: bool,
    /// The most items that a collection of a definition may have.
    #[arg(long, value_name = "N", default_value_t = graph::COLLECTION_SIZE_MAX as u32, value_parser = value_parser!(u32).range(0..=i64::from(COLLECTION_SIZE_BOUND)))]
    rgd_max_collection_size: u32,
    /// The most dimensions that a collection of a definition may have.
    #[arg(long, value_name = "N", default_value_t = graph::DIMENSIONS_MAX as u32, value_parser = value_parser!(u32).range(0..=i64::from(COLLECTION_DIMENSIONS_BOUND)))]
    rgd_max_collection_dimension_size: u32,
    /// How many GraphRevisions are kept of a definition; 0 keeps all.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(0..=i64::from(REVISION_COUNT_BOUND)))]
    rgd_max_graph_revisions: u32,
    /// The version of kro that labels and ApplySet annotations name: that of the kro whose cluster is taken over.
    #[arg(long, value_name = "V", default_value = graph::KRO_VERSION, value_parser = version)]
    kro_version: String,
}

/// The gates, which a linter has too.
#[derive(Debug, Args)]
pub(crate) struct Gates {
    /// Which alpha features are on, as NAME=BOOL,...: CELOmitFunction permits omit() in templates; InstanceNodeStatus lets the
    /// status of instances say how their nodes are; InstanceScale gives them the scale subresource that their definition asks for;
    /// ResourceDeletionPolicy lets children stay that are not wanted any more, where their annotation says so. kro has none of the last
    /// three.
    #[arg(long, value_name = "GATES", default_value = "", hide_default_value = true, value_parser = FeatureGates::parse)]
    feature_gates: FeatureGates,
}

// === impl Flags ===

impl Flags {
    /// Returns what they come to.
    pub(crate) fn switches(self) -> Switches {
        let kept = self.rgd_max_graph_revisions as usize;
        Switches {
            gates: self.gates.feature_gates,
            allow_crd_deletion: self.allow_crd_deletion,
            collection_size_max: self.rgd_max_collection_size as usize,
            dimensions_max: self.rgd_max_collection_dimension_size as usize,
            revision_count_max: Some(kept).filter(|kept| *kept > 0),
            version: self.kro_version,
        }
    }
}

// === impl Gates ===

impl Gates {
    /// Returns what a definition may use.
    pub(crate) fn compile_options(&self) -> graph::CompileOptions {
        graph::CompileOptions {
            omit: self.feature_gates.omit,
            node_status: self.feature_gates.node_status.unwrap_or_default(),
            scale: self.feature_gates.scale,
            deletion_policy: self.feature_gates.deletion_policy,
            ..graph::CompileOptions::default()
        }
    }
}

fn version(text: &str) -> Result<String, String> {
    match is_label_value(text).into_iter().next() {
        _ if text.is_empty() => Err("it is empty".to_owned()),
        None => Ok(text.to_owned()),
        Some(problem) => Err(format!("it is the value of a label: {problem}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    fn switches(line: &str) -> Result<Switches, String> {
        let words = std::iter::once("x").chain(line.split_whitespace());
        let parsed = Line::try_parse_from(words);
        parsed
            .map(|line| line.flags.switches())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn without_a_flag_everything_is_as_in_kro() {
        assert_eq!(switches(""), Ok(Switches::default()));
    }

    #[test]
    fn flags_are_written_as_for_kro() {
        let said = switches(
            "--feature-gates=CELOmitFunction=true --allow-crd-deletion=true --rgd-max-collection-size=7 \
             --rgd-max-collection-dimension-size=2 --rgd-max-graph-revisions=8 --kro-version=v0.8.5",
        )
        .expect("they are right");
        assert!(said.gates.omit && said.allow_crd_deletion);
        assert_eq!((said.collection_size_max, said.dimensions_max), (7, 2));
        assert_eq!(said.revision_count_max, Some(8));
        assert_eq!(said.version, "v0.8.5");
        let bare = switches("--allow-crd-deletion --rgd-max-graph-revisions 0").expect("right");
        assert!(bare.allow_crd_deletion);
        assert_eq!(bare.revision_count_max, None);
        let closed = switches("--allow-crd-deletion=f").expect("Go's words");
        assert!(!closed.allow_crd_deletion);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, want) in [
            (
                "--feature-gates=Graph=true",
                "unrecognized feature gate: Graph",
            ),
            (
                "--feature-gates=InstanceConditionEvents=true",
                "cannot be opened",
            ),
            ("--allow-crd-deletion=yes", "invalid syntax"),
            ("--kro-version=v1+dirty", "the value of a label"),
            ("--rgd-max-collection-size=-1", "-1"),
        ] {
            let refused = switches(line).expect_err(line);
            assert!(refused.contains(want), "{line}: {refused}");
        }
    }
}
