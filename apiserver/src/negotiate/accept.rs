//! Reads `Accept` and picks the clause that is met.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use http::{HeaderMap, header};

use super::{Encoding, Messages, Negotiated, Offer, PROTOBUF, Shape, TableVersion};

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
pub(super) fn choose(headers: &HeaderMap, offer: Offer, messages: Messages) -> Option<Negotiated> {
    let text = header_text(headers);
    if matches!(
        text,
        "" | "*/*" | "application/json" | "application/json, */*"
    ) {
        return Some(Negotiated::JSON);
    }
    clauses(text)
        .into_iter()
        .find_map(|clause| clause.satisfied(offer, messages))
}

/// Whether some clause covers `media_type`.
pub(super) fn names(headers: &HeaderMap, media_type: &str) -> bool {
    let text = header_text(headers);
    text.is_empty()
        || clauses(text)
            .into_iter()
            .any(|clause| covers(clause.media_range, media_type))
}

/// Whether some clause names one of these media types, or takes anything. Where there are none, they are taken as named.
pub(super) fn names_one_of(headers: &HeaderMap, media_types: &[&str]) -> bool {
    let ranges = header_text(headers).split(',').take(CLAUSE_COUNT_MAX);
    let mut ranges = ranges.map(|clause| clause.split(';').next().unwrap_or_default().trim());
    media_types.is_empty() || ranges.any(|range| range == "*/*" || media_types.contains(&range))
}

/// The first clause that asks for an aggregated discovery document in one of `versions`, unless a clause before it is
/// met by the plain one. Of the first version there is a message.
pub(super) fn aggregated<'a>(
    headers: &HeaderMap,
    versions: &[&'a str],
) -> Option<(&'a str, Encoding)> {
    let text = header_text(headers);
    if !text.contains("APIGroupDiscoveryList") {
        return None;
    }
    for clause in clauses(text) {
        let encoding = if covers(clause.media_range, "application/json") {
            Encoding::Json
        } else if clause.media_range.eq_ignore_ascii_case(PROTOBUF) {
            Encoding::Protobuf
        } else {
            continue;
        };
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
            && (encoding == Encoding::Json || versions.first() == Some(version))
        {
            return Some((version, encoding));
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

/// The clauses, best quality first, in their order where equal, except that a wildcard comes after what is named; those of quality zero
/// left out.
///
/// The order of Kubernetes is none: a clause that names more comes before the wildcard ahead of it, whatever its quality. So it is
/// sorted as there.
///
/// Source: `github.com/munnerz/goautoneg` (`Less`), Go's `sort` (`insertionSort`).
fn clauses(text: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = text
        .split(',')
        .take(CLAUSE_COUNT_MAX)
        .map(Clause::parse)
        .filter(|clause| clause.quality > 0 && !clause.media_range.is_empty())
        .collect();
    for end in 1..clauses.len() {
        let ahead = clauses.get(..=end).unwrap_or_default().iter().rev();
        let passed = ahead.clone().skip(1).zip(ahead.clone().take(1).cycle());
        let count = passed.take_while(|(before, clause)| clause.comes_before(before));
        let place = end.saturating_sub(count.count());
        if let Some(moved) = clauses.get_mut(place..=end) {
            moved.rotate_right(1);
        }
    }
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

    fn comes_before(&self, other: &Self) -> bool {
        let (own_type, own_subtype) = self.halves();
        let (type_, subtype) = other.halves();
        self.quality > other.quality
            || own_type != "*" && type_ == "*"
            || own_subtype != "*" && subtype == "*"
    }

    fn halves(&self) -> (&'a str, &'a str) {
        self.media_range
            .split_once('/')
            .unwrap_or((self.media_range, ""))
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
    fn satisfied(&self, offer: Offer, messages: Messages) -> Option<Negotiated> {
        let encoding = if covers(self.media_range, "application/json") {
            Encoding::Json
        } else if covers(self.media_range, "application/yaml") && offer != Offer::Watch {
            Encoding::Yaml
        } else if self.media_range.eq_ignore_ascii_case(PROTOBUF) {
            Encoding::Protobuf
        } else {
            return None;
        };
        let shape = match self.parameter("as") {
            // A group alone names no object that there is.
            None if self.parameter("g").or(self.parameter("v")).is_some() => return None,
            None | Some("") => Shape::Object,
            Some(kind) => self.shape(kind, offer)?,
        };
        let has_message = match shape {
            Shape::Object => messages == Messages::All,
            Shape::Metadata | Shape::MetadataList => messages != Messages::None,
            Shape::Table(_) => false,
        };
        if encoding == Encoding::Protobuf && !has_message {
            return None;
        }
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
