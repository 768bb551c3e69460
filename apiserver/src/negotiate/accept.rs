//! Reads `Accept` and picks the clause that is met.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use http::{HeaderMap, header};

use super::{Encoding, Negotiated, Offer, Shape, TableVersion};

/// More clauses than any client sends; what comes after them is not read.
const CLAUSE_COUNT_MAX: usize = 32;

/// One clause: a media range and its parameters.
#[derive(Clone, Copy, Debug)]
struct Clause<'a> {
    media_range: &'a str,
    parameters: &'a str,
    /// In thousandths, so that it is ordered.
    quality: u16,
}

/// Picks the form of an answer; `None` where no clause can be met.
pub(super) fn choose(headers: &HeaderMap, offer: Offer) -> Option<Negotiated> {
    let text = header_text(headers);
    if matches!(
        text,
        "" | "*/*" | "application/json" | "application/json, */*"
    ) {
        return Some(Negotiated::JSON);
    }
    clauses(text)
        .into_iter()
        .find_map(|clause| clause.satisfied(offer))
}

/// Whether some clause covers `media_type`.
pub(super) fn names(headers: &HeaderMap, media_type: &str) -> bool {
    let text = header_text(headers);
    text.is_empty()
        || clauses(text)
            .into_iter()
            .any(|clause| covers(clause.media_range, media_type))
}

/// The first clause that asks for an aggregated discovery document in one of `versions`, unless a clause before it is
/// met by the plain one.
pub(super) fn aggregated<'a>(headers: &HeaderMap, versions: &[&'a str]) -> Option<&'a str> {
    let text = header_text(headers);
    if !text.contains("APIGroupDiscoveryList") {
        return None;
    }
    for clause in clauses(text) {
        if !covers(clause.media_range, "application/json") {
            continue;
        }
        let (Some(group), Some(version), Some(kind)) = (
            clause.parameter("g"),
            clause.parameter("v"),
            clause.parameter("as"),
        ) else {
            return None;
        };
        if group == "apidiscovery.k8s.io"
            && kind == "APIGroupDiscoveryList"
            && let Some(version) = versions.iter().find(|known| **known == version)
        {
            return Some(version);
        }
    }
    None
}

fn header_text(headers: &HeaderMap) -> &str {
    // Clients send one header; of several the first counts.
    headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .trim()
}

/// The clauses, best quality first, in their order where equal; those of quality zero left out.
fn clauses(text: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = text
        .split(',')
        .take(CLAUSE_COUNT_MAX)
        .map(Clause::parse)
        .filter(|clause| clause.quality > 0 && !clause.media_range.is_empty())
        .collect();
    clauses.sort_by_key(|clause| std::cmp::Reverse(clause.quality));
    clauses
}

fn covers(range: &str, media_type: &str) -> bool {
    range == "*/*"
        || range.eq_ignore_ascii_case(media_type)
        || range
            .strip_suffix("/*")
            .is_some_and(|kind| media_type.split('/').next() == Some(kind))
}

// === impl Clause ===

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let (media_range, parameters) = text.split_once(';').unwrap_or((text, ""));
        let mut clause = Self {
            media_range: media_range.trim(),
            parameters,
            quality: 1000,
        };
        if let Some(quality) = clause.parameter("q") {
            clause.quality = thousandths(quality);
        }
        clause
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.split(';').find_map(|parameter| {
            let (key, value) = parameter.split_once('=')?;
            key.trim()
                .eq_ignore_ascii_case(name)
                .then(|| value.trim().trim_matches('"'))
        })
    }

    /// The form that meets the clause, if the endpoint has one.
    fn satisfied(&self, offer: Offer) -> Option<Negotiated> {
        let encoding = if covers(self.media_range, "application/json") {
            Encoding::Json
        } else if covers(self.media_range, "application/yaml") && offer != Offer::Watch {
            Encoding::Yaml
        } else {
            return None;
        };
        let shape = match self.parameter("as") {
            None | Some("") => Shape::Object,
            Some(kind) => self.shape(kind, offer)?,
        };
        Some(Negotiated {
            encoding,
            shape,
            pretty: self.parameter("pretty") == Some("1"),
        })
    }

    fn shape(&self, kind: &str, offer: Offer) -> Option<Shape> {
        if self.parameter("g") != Some("meta.k8s.io") {
            return None;
        }
        let version = match self.parameter("v") {
            Some("v1") => TableVersion::V1,
            Some("v1beta1") => TableVersion::V1Beta1,
            _ => return None,
        };
        match (kind, offer) {
            ("Table", Offer::Object | Offer::List | Offer::Watch) => Some(Shape::Table(version)),
            ("PartialObjectMetadata", Offer::Object | Offer::Watch) => Some(Shape::Metadata),
            ("PartialObjectMetadataList", Offer::List) => Some(Shape::MetadataList),
            _ => None,
        }
    }
}

/// `0.75` as 750. What is no such number counts as 1, as it does for Kubernetes.
fn thousandths(quality: &str) -> u16 {
    let (whole, fraction) = quality.split_once('.').unwrap_or((quality, ""));
    let mut digits = fraction.bytes();
    let mut value = match whole {
        "0" | "" => 0,
        _ => return 1000,
    };
    for weight in [100, 10, 1] {
        let digit = match digits.next() {
            Some(digit @ b'0'..=b'9') => u16::from(digit.wrapping_sub(b'0')),
            Some(_) => return 1000,
            None => 0,
        };
        value = digit.saturating_mul(weight).saturating_add(value);
    }
    value
}
