//! Judges an `AuthenticationConfiguration`, and compiles its expressions.
//!
//! Source: `apiserver/pkg/apis/apiserver/validation/validation.go`.

use std::collections::BTreeSet;

use api::{FieldError, FieldPath, validation::is_dns_subdomain};
use expressions::{DeclType, Program};
use http::Uri;
use serde_json::{Value, json};

use super::{
    configuration::{
        ClaimMappings, ClaimValidationRule, Configuration, IssuerConfiguration, JwtAuthenticator,
        PrefixedClaimOrExpression, UserValidationRule,
    },
    issuer::trust,
    mapping::{Mapping, Rule, Source, over_claims, over_user, reads_claim},
};
use crate::request::is_kubernetes_key;

/// How many issuers there may be.
const ISSUER_COUNT_MAX: usize = 64;
const NOT_BOTH: &str = "claim and expression can't both be set";

type Errors = Vec<FieldError>;

/// Judges a configuration. Returns a mapping for each of its authenticators, in their order.
///
/// # Errors
/// Everything that is wrong with it, in Kubernetes' words.
pub(super) fn validate(
    configuration: &Configuration,
    disallowed_issuers: &[&str],
) -> Result<Vec<Mapping>, Errors> {
    let (root, mut errors, mut mappings) = (FieldPath::new("jwt"), Errors::new(), Vec::new());
    let all = &configuration.jwt;
    if all.len() > ISSUER_COUNT_MAX {
        return Err(vec![FieldError::too_many(
            &root,
            all.len(),
            ISSUER_COUNT_MAX,
        )]);
    }
    let (mut urls, mut discoveries) = (BTreeSet::new(), BTreeSet::new());
    for (index, one) in all.iter().enumerate() {
        let path = root.index(index);
        mappings.extend(authenticator(one, &path, disallowed_issuers, &mut errors));
        let (issuer, path) = (&one.issuer, path.child("issuer"));
        if !urls.insert(&issuer.url) {
            let error = FieldError::duplicate(&path.child("url"), issuer.url.as_str());
            errors.push(error);
        }
        let discovery = &issuer.discovery_url;
        if !discovery.is_empty() && !discoveries.insert(discovery) {
            let path = path.child("discoveryURL");
            errors.push(FieldError::duplicate(&path, discovery.as_str()));
        }
    }
    if let Some(anonymous) = &configuration.anonymous
        && !anonymous.enabled
        && !anonymous.conditions.is_empty()
    {
        let conditions: Vec<Value> = anonymous
            .conditions
            .iter()
            .map(|it| json!({"path": it.path}))
            .collect();
        let path = FieldPath::new("anonymous").child("conditions");
        let detail = "enabled should be set to true when conditions are defined";
        errors.push(FieldError::invalid(&path, conditions, detail));
    }
    if errors.is_empty() {
        Ok(mappings)
    } else {
        Err(errors)
    }
}

fn authenticator(
    one: &JwtAuthenticator,
    path: &FieldPath,
    disallowed: &[&str],
    errors: &mut Errors,
) -> Option<Mapping> {
    issuer(&one.issuer, disallowed, &path.child("issuer"), errors);
    let rules = &one.claim_validation_rules;
    let rules_path = path.child("claimValidationRules");
    let (required, claim_rules) = claim_validation_rules(rules, &rules_path, errors);
    let mappings_path = path.child("claimMappings");
    let mapped = claim_mappings(&one.claim_mappings, &mappings_path, &claim_rules, errors);
    let rules_path = path.child("userValidationRules");
    let user_rules = user_validation_rules(&one.user_validation_rules, &rules_path, errors);
    let (username, groups, uid, extra) = mapped?;
    Some(Mapping {
        username,
        groups,
        uid,
        extra,
        required,
        claim_rules,
        user_rules,
    })
}

fn issuer(
    issuer: &IssuerConfiguration,
    disallowed: &[&str],
    path: &FieldPath,
    errors: &mut Errors,
) {
    let (own, discovery) = (issuer.url.as_str(), issuer.discovery_url.as_str());
    let at = path.child("url");
    if own.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        url(own, disallowed, &at, errors);
    }
    if !discovery.is_empty() {
        let at = path.child("discoveryURL");
        if !own.is_empty() && own.trim_end_matches('/') == discovery.trim_end_matches('/') {
            let detail = "discoveryURL must be different from URL";
            errors.push(FieldError::invalid(&at, discovery, detail));
        }
        // It is where the issuer is read, and signs nothing.
        url(discovery, &[], &at, errors);
    }
    audiences(issuer, path, errors);
    if let Err(reason) = trust(&issuer.certificate_authority) {
        let at = path.child("certificateAuthority");
        errors.push(FieldError::invalid(&at, "<omitted>", reason));
    }
    let selector = issuer.egress_selector_type.as_str();
    if !selector.is_empty() {
        let at = path.child("egressSelectorType");
        let detail = "egress selectors are not supported: the hub connects to issuers itself";
        errors.push(FieldError::invalid(&at, selector, detail));
    }
}

fn url(text: &str, disallowed: &[&str], path: &FieldPath, errors: &mut Errors) {
    let mut invalid = |detail: String| errors.push(FieldError::invalid(path, text, detail));
    if disallowed.contains(&text) {
        let issuers = disallowed.join(" ");
        invalid(format!(
            "URL must not overlap with disallowed issuers: [{issuers}]"
        ));
    }
    let (address, fragment) = text.split_once('#').unwrap_or((text, ""));
    let uri = match address.parse::<Uri>() {
        Ok(uri) => uri,
        Err(error) => return invalid(format!("parse {text:?}: {error}")),
    };
    if uri.scheme_str() != Some("https") {
        invalid("URL scheme must be https".to_owned());
    } else if uri.host().unwrap_or_default().is_empty() {
        invalid("URL must have a host".to_owned());
    }
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    if authority.contains('@') {
        invalid("URL must not contain a username or password".to_owned());
    }
    if uri.query().is_some_and(|query| !query.is_empty()) {
        invalid("URL must not contain a query".to_owned());
    }
    if !fragment.is_empty() {
        invalid("URL must not contain a fragment".to_owned());
    }
}

fn audiences(issuer: &IssuerConfiguration, path: &FieldPath, errors: &mut Errors) {
    let at = path.child("audiences");
    let (audiences, policy) = (&issuer.audiences, issuer.audience_match_policy.as_str());
    if audiences.is_empty() {
        let detail = format!("at least one {at} is required");
        errors.push(FieldError::required(&at, detail));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, audience) in audiences.iter().enumerate() {
        let at = at.index(index);
        if audience.is_empty() {
            errors.push(FieldError::required(&at, ""));
        }
        if !seen.insert(audience) {
            errors.push(FieldError::duplicate(&at, audience.as_str()));
        }
    }
    let detail = match (audiences.len(), policy) {
        (_, "MatchAny") | (1, "") => return,
        (1, _) => "audienceMatchPolicy must be empty or MatchAny for single audience",
        _ => "audienceMatchPolicy must be MatchAny for multiple audiences",
    };
    let at = path.child("audienceMatchPolicy");
    errors.push(FieldError::invalid(&at, policy, detail));
}

fn claim_validation_rules(
    rules: &[ClaimValidationRule],
    path: &FieldPath,
    errors: &mut Errors,
) -> (Vec<(String, String)>, Vec<Rule>) {
    let (mut claims, mut expressions) = (BTreeSet::new(), BTreeSet::new());
    let (mut required, mut compiled) = (Vec::new(), Vec::new());
    for (index, rule) in rules.iter().enumerate() {
        let at = path.index(index);
        match (rule.claim.is_empty(), rule.expression.is_empty()) {
            (false, false) => errors.push(FieldError::invalid(&at, rule.claim.as_str(), NOT_BOTH)),
            (true, true) => {
                errors.push(FieldError::required(&at, "claim or expression is required"));
            }
            (false, true) => {
                if !rule.message.is_empty() {
                    let detail = "may not be specified when claim is set";
                    let at = at.child("message");
                    errors.push(FieldError::invalid(&at, rule.message.as_str(), detail));
                }
                if !claims.insert(&rule.claim) {
                    let at = at.child("claim");
                    errors.push(FieldError::duplicate(&at, rule.claim.as_str()));
                }
                required.push((rule.claim.clone(), rule.required_value.clone()));
            }
            (true, false) => {
                if !rule.required_value.is_empty() {
                    let detail = "may not be specified when expression is set";
                    let (at, value) = (at.child("requiredValue"), rule.required_value.as_str());
                    errors.push(FieldError::invalid(&at, value, detail));
                }
                let at = at.child("expression");
                if !expressions.insert(&rule.expression) {
                    errors.push(FieldError::duplicate(&at, rule.expression.as_str()));
                    continue;
                }
                let program = boolean(over_claims(&rule.expression));
                let program = taken(program, &at, &rule.expression, errors);
                compiled.extend(program.map(|program| Rule {
                    program,
                    message: rule.message.clone(),
                }));
            }
        }
    }
    (required, compiled)
}

type Mapped = (
    Source,
    Option<Source>,
    Option<Source>,
    Vec<(String, Program)>,
);

fn claim_mappings(
    mappings: &ClaimMappings,
    path: &FieldPath,
    rules: &[Rule],
    errors: &mut Errors,
) -> Option<Mapped> {
    let at = path.child("username");
    let username = prefixed(&mappings.username, &at, errors);
    if mappings.username.claim.is_empty() && mappings.username.expression.is_empty() {
        errors.push(FieldError::required(&at, "claim or expression is required"));
    }
    let groups = prefixed(&mappings.groups, &path.child("groups"), errors);
    let (uid, at) = (&mappings.uid, path.child("uid"));
    let uid = match (uid.claim.is_empty(), uid.expression.is_empty()) {
        (false, false) => {
            errors.push(FieldError::invalid(&at, "", NOT_BOTH));
            None
        }
        (true, true) => None,
        (false, true) => Some(Source::Claim {
            name: uid.claim.clone(),
            prefix: String::new(),
        }),
        (true, false) => {
            let (at, source) = (at.child("expression"), &uid.expression);
            taken(over_claims(source), &at, source, errors).map(Source::Expression)
        }
    };
    let extra = extra(mappings, &path.child("extra"), errors);
    if let Some(Source::Expression(username)) = &username {
        let others = extra.iter().map(|(_, program)| program);
        let mut all = others
            .chain(rules.iter().map(|rule| &rule.program))
            .chain([username]);
        if reads_claim(username, "email") && !all.any(|it| reads_claim(it, "email_verified")) {
            let detail = "claims.email_verified must be used in claimMappings.username.expression or \
                          claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is \
                          used in claimMappings.username.expression";
            let at = path.child("username").child("expression");
            errors.push(FieldError::invalid(&at, username.source(), detail));
        }
    }
    username.map(|username| (username, groups, uid, extra))
}

fn extra(
    mappings: &ClaimMappings,
    path: &FieldPath,
    errors: &mut Errors,
) -> Vec<(String, Program)> {
    let (mut seen, mut compiled) = (BTreeSet::new(), Vec::new());
    for (index, mapping) in mappings.extra.iter().enumerate() {
        let (at, key) = (path.index(index), mapping.key.as_str());
        let key_path = at.child("key");
        for detail in domain_prefixed(key) {
            errors.push(match detail {
                None => FieldError::required(&key_path, ""),
                Some(detail) => FieldError::invalid(&key_path, key, detail),
            });
        }
        if key != key.to_lowercase() {
            errors.push(FieldError::invalid(&key_path, key, "must be lowercase"));
        }
        if is_kubernetes_key(key) {
            let detail =
                "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
            errors.push(FieldError::invalid(&key_path, key, detail));
        }
        if !seen.insert(key) {
            errors.push(FieldError::duplicate(&key_path, key));
            continue;
        }
        let (at, source) = (at.child("valueExpression"), &mapping.value_expression);
        if source.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        let program = taken(over_claims(source), &at, source, errors);
        compiled.extend(program.map(|program| (key.to_owned(), program)));
    }
    compiled
}

/// What is wrong with a key like `acme.io/foo`; `None` for one that is missing.
///
/// Source: `IsDomainPrefixedPath` in `apimachinery/pkg/util/validation/validation.go`.
fn domain_prefixed(key: &str) -> Vec<Option<String>> {
    if key.is_empty() {
        return vec![None];
    }
    let (domain, path) = match key.split_once('/') {
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => (domain, path),
        _ => {
            let text = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            return vec![Some(text.to_owned())];
        }
    };
    let mut wrong: Vec<_> = is_dns_subdomain(domain).into_iter().map(Some).collect();
    let is_of_path = |it: u8| it.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&it);
    if !path.bytes().all(is_of_path) {
        wrong.push(Some("Invalid path".to_owned()));
    }
    wrong
}

fn user_validation_rules(
    rules: &[UserValidationRule],
    path: &FieldPath,
    errors: &mut Errors,
) -> Vec<Rule> {
    let (mut seen, mut compiled) = (BTreeSet::new(), Vec::new());
    for (index, rule) in rules.iter().enumerate() {
        let (at, source) = (path.index(index).child("expression"), &rule.expression);
        if source.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if !seen.insert(source) {
            errors.push(FieldError::duplicate(&at, source.as_str()));
        } else {
            let program = taken(boolean(over_user(source)), &at, source, errors);
            compiled.extend(program.map(|program| Rule {
                program,
                message: rule.message.clone(),
            }));
        }
    }
    compiled
}

fn prefixed(
    mapping: &PrefixedClaimOrExpression,
    path: &FieldPath,
    errors: &mut Errors,
) -> Option<Source> {
    let PrefixedClaimOrExpression {
        claim,
        prefix,
        expression,
    } = mapping;
    match (claim.is_empty(), expression.is_empty()) {
        (false, false) => {
            errors.push(FieldError::invalid(path, "", NOT_BOTH));
            None
        }
        (true, true) => None,
        (true, false) => {
            if let Some(prefix) = prefix {
                let detail = "may not be specified when expression is set";
                let at = path.child("prefix");
                errors.push(FieldError::invalid(&at, prefix.as_str(), detail));
            }
            let at = path.child("expression");
            taken(over_claims(expression), &at, expression, errors).map(Source::Expression)
        }
        (false, true) => {
            if prefix.is_none() {
                let detail = "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                errors.push(FieldError::required(&path.child("prefix"), detail));
            }
            Some(Source::Claim {
                name: claim.clone(),
                prefix: prefix.clone().unwrap_or_default(),
            })
        }
    }
}

fn boolean(compiled: Result<Program, String>) -> Result<Program, String> {
    let program = compiled?;
    if *program.result_type() == DeclType::Bool {
        return Ok(program);
    }
    Err("must evaluate to bool".to_owned())
}

fn taken(
    compiled: Result<Program, String>,
    path: &FieldPath,
    source: &str,
    errors: &mut Errors,
) -> Option<Program> {
    match compiled {
        Ok(program) => Some(program),
        Err(detail) => {
            errors.push(FieldError::invalid(path, source, detail));
            None
        }
    }
}
