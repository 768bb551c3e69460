//! kro's feature gates, and three of this project.
//!
//! Source: kro v0.9.4 `pkg/features/features.go`; k8s.io/component-base `featuregate/feature_gate.go` Set, whose words the
//! refusals have.

use dialect::number::parse_bool;

/// The gate that permits `omit()` in templates.
pub const CEL_OMIT_FUNCTION: &str = "CELOmitFunction";

/// The gate that puts the state of each node, and what an instance manages, into the status of instances. kro has none of it, so it is
/// closed unless it is asked for.
pub const INSTANCE_NODE_STATUS: &str = "InstanceNodeStatus";

/// The gate that gives instances the scale subresource that their definition asks for. kro has none, so it is closed unless it is asked
/// for.
pub const INSTANCE_SCALE: &str = "InstanceScale";

/// The gate that lets children stay that nothing wants any more, where their annotation says so. kro has none, so it is closed unless it is
/// asked for.
pub const RESOURCE_DELETION_POLICY: &str = "ResourceDeletionPolicy";

/// Gates that kro has and this project has nothing behind: they can be named, and not opened.
const ABSENT: &[&str] = &["InstanceConditionEvents", "InstanceConditionMetrics"];

/// Which gates are open. All of them are alpha, and closed by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// `CELOmitFunction`: `omit()` may be used in templates.
    pub omit: bool,
    /// `InstanceNodeStatus`: instances say how their nodes are; `None` where nobody has said whether they do.
    pub node_status: Option<bool>,
    /// `InstanceScale`: instances have the scale subresource that their definition asks for.
    pub scale: bool,
    /// `ResourceDeletionPolicy`: children stay that nothing wants any more, where their annotation says so.
    pub deletion_policy: bool,
}

/// Reads the value of a flag that is a bool, in the words that Go's flags take.
///
/// # Errors
/// As `strconv.ParseBool` words them.
pub fn parse_switch(text: &str) -> Result<bool, String> {
    parse_bool(text)
}

// === impl FeatureGates ===

impl FeatureGates {
    /// Reads `Name=true,Other=false`, as kro's `--feature-gates` has it.
    ///
    /// # Errors
    /// Names the gate that is unknown or cannot be opened, or the value that is no bool.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut gates = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name.trim(), value.trim()),
                None => return Err(format!("missing bool value for {}", part.trim())),
            };
            let open = parse_bool(value)
                .map_err(|error| format!("invalid value of {name}={value}, err: {error}"))?;
            gates.set(name, open)?;
        }
        Ok(gates)
    }

    /// Opens or closes one gate.
    ///
    /// # Errors
    /// Names the gate that is unknown or cannot be opened.
    pub fn set(&mut self, name: &str, open: bool) -> Result<(), String> {
        match name {
            CEL_OMIT_FUNCTION => self.omit = open,
            INSTANCE_NODE_STATUS => self.node_status = Some(open),
            INSTANCE_SCALE => self.scale = open,
            RESOURCE_DELETION_POLICY => self.deletion_policy = open,
            _ if ABSENT.contains(&name) && !open => {}
            _ if ABSENT.contains(&name) => {
                return Err(format!(
                    "feature gate {name} cannot be opened: kro has it, and this hub does not"
                ));
            }
            _ => return Err(format!("unrecognized feature gate: {name}")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_as_kro_reads_them() {
        let cases = [
            ("", Ok(false)),
            ("CELOmitFunction=true", Ok(true)),
            (" CELOmitFunction = T ,", Ok(true)),
            ("CELOmitFunction=true,CELOmitFunction=false", Ok(false)),
            ("InstanceConditionEvents=false,CELOmitFunction=1", Ok(true)),
            (
                "CELOmitFunction",
                Err("missing bool value for CELOmitFunction"),
            ),
            (
                "CELOmitFunction=yes",
                Err(
                    "invalid value of CELOmitFunction=yes, err: strconv.ParseBool: parsing \"yes\": invalid syntax",
                ),
            ),
            (
                "GraphKind=true",
                Err("unrecognized feature gate: GraphKind"),
            ),
            (
                "celomitfunction=true",
                Err("unrecognized feature gate: celomitfunction"),
            ),
            (
                "InstanceConditionMetrics=true",
                Err(
                    "feature gate InstanceConditionMetrics cannot be opened: kro has it, and this hub does not",
                ),
            ),
        ];
        for (text, want) in cases {
            let omit = FeatureGates::parse(text).map(|gates| gates.omit);
            assert_eq!(omit, want.map_err(str::to_owned), "{text:?}");
        }
    }
}
