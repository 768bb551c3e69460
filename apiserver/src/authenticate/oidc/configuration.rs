//! `AuthenticationConfiguration`: its fields, and how a file is read.
//!
//! Source: `apiserver/pkg/apis/apiserver/v1/types.go`; `--oidc-*`: `kubernetes/pkg/kubeapiserver/options/authentication.go`.

use dialect::yaml::{self, Aliases};
use serde::Deserialize;
use serde_json::Value;

use crate::config::OidcFlags;

/// The group of the file.
const GROUP: &str = "apiserver.config.k8s.io";
/// Its versions, which are all the same to this server.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];
const KIND: &str = "AuthenticationConfiguration";

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Configuration {
    api_version: String,
    kind: String,
    pub(super) jwt: Vec<JwtAuthenticator>,
    pub(super) anonymous: Option<AnonymousConfiguration>,
}

/// One issuer, and what its tokens make of their bearers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct JwtAuthenticator {
    pub(super) issuer: IssuerConfiguration,
    pub(super) claim_validation_rules: Vec<ClaimValidationRule>,
    pub(super) claim_mappings: ClaimMappings,
    pub(super) user_validation_rules: Vec<UserValidationRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct IssuerConfiguration {
    pub(super) url: String,
    #[serde(rename = "discoveryURL")]
    pub(super) discovery_url: String,
    pub(super) certificate_authority: String,
    pub(super) audiences: Vec<String>,
    pub(super) audience_match_policy: String,
    pub(super) egress_selector_type: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ClaimValidationRule {
    pub(super) claim: String,
    pub(super) required_value: String,
    pub(super) expression: String,
    pub(super) message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ClaimMappings {
    pub(super) username: PrefixedClaimOrExpression,
    pub(super) groups: PrefixedClaimOrExpression,
    pub(super) uid: ClaimOrExpression,
    pub(super) extra: Vec<ExtraMapping>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct PrefixedClaimOrExpression {
    pub(super) claim: String,
    pub(super) prefix: Option<String>,
    pub(super) expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ClaimOrExpression {
    pub(super) claim: String,
    pub(super) expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ExtraMapping {
    pub(super) key: String,
    pub(super) value_expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct UserValidationRule {
    pub(super) expression: String,
    pub(super) message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct AnonymousConfiguration {
    pub(super) enabled: bool,
    pub(super) conditions: Vec<AnonymousCondition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct AnonymousCondition {
    pub(super) path: String,
}

// === impl Configuration ===

impl Configuration {
    /// Reads a file. Fields that there are not are an error, so that a rule with a typing error is not left out.
    ///
    /// # Errors
    /// Why it is no such configuration.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("empty config data".to_owned());
        }
        let document: Value =
            yaml::document(text, Aliases::Few).map_err(|error| error.to_string())?;
        let (version, kind) = (document["apiVersion"].as_str(), document["kind"].as_str());
        let version = version.unwrap_or_default();
        let known = version
            .strip_prefix(GROUP)
            .and_then(|it| it.strip_prefix('/'));
        if !known.is_some_and(|it| VERSIONS.contains(&it)) || kind != Some(KIND) {
            let kind = kind.unwrap_or_default();
            return Err(format!(
                "no kind {kind:?} is registered for version {version:?}: expected {KIND} of {GROUP}/v1"
            ));
        }
        Self::deserialize(document).map_err(|error| format!("strict decoding error: {error}"))
    }
}

impl From<&OidcFlags> for Configuration {
    fn from(flags: &OidcFlags) -> Self {
        let prefix = match flags.username_prefix.as_str() {
            "-" => String::new(),
            "" if flags.username_claim != "email" => format!("{}#", flags.issuer_url),
            prefix => prefix.to_owned(),
        };
        let groups = if flags.groups_claim.is_empty() {
            PrefixedClaimOrExpression::default()
        } else {
            PrefixedClaimOrExpression {
                claim: flags.groups_claim.clone(),
                prefix: Some(flags.groups_prefix.clone()),
                expression: String::new(),
            }
        };
        let rules = flags.required_claims.iter();
        let rules = rules.map(|(claim, value)| ClaimValidationRule {
            claim: claim.clone(),
            required_value: value.clone(),
            ..ClaimValidationRule::default()
        });
        let authenticator = JwtAuthenticator {
            issuer: IssuerConfiguration {
                url: flags.issuer_url.clone(),
                audiences: vec![flags.client_id.clone()],
                certificate_authority: flags.certificate_authority.clone(),
                ..IssuerConfiguration::default()
            },
            claim_validation_rules: rules.collect(),
            claim_mappings: ClaimMappings {
                username: PrefixedClaimOrExpression {
                    claim: flags.username_claim.clone(),
                    prefix: Some(prefix),
                    expression: String::new(),
                },
                groups,
                ..ClaimMappings::default()
            },
            user_validation_rules: Vec::new(),
        };
        Self {
            jwt: vec![authenticator],
            ..Self::default()
        }
    }
}
