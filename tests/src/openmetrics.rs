//! A strict reader of what `/metrics` answers.
//!
//! Source: OpenMetrics 1.0, the text format.

use std::collections::{BTreeMap, BTreeSet};

/// Labels by name.
type Labels = BTreeMap<String, String>;

/// A family of metrics.
#[derive(Debug)]
pub struct Family {
    /// `counter`, `gauge`, `histogram` or `info`.
    pub kind: String,
    /// Its samples: name, labels, value.
    pub samples: Vec<(String, Labels, f64)>,
}

/// Parses an exposition.
///
/// # Errors
/// For the first thing that breaks a rule: a family without help or type, or that appears twice; a sample outside of its
/// family, with a suffix that its type does not have, or that appears twice; a counter that is no count; a histogram whose
/// buckets contradict each other, its count or its sum.
pub fn parse(text: &str) -> Result<BTreeMap<String, Family>, String> {
    let body = text
        .strip_suffix("# EOF\n")
        .ok_or("it does not end with # EOF")?;
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut current = String::new();
    let mut helped = None;
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or_else(|| broken(line))?;
            if help.trim().is_empty() || !help.ends_with('.') {
                return Err(format!("no sentence: {line}"));
            }
            helped = Some(name);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or_else(|| broken(line))?;
            if helped.take() != Some(name) {
                return Err(format!("no help before: {line}"));
            }
            let family = Family {
                kind: kind.to_owned(),
                samples: Vec::new(),
            };
            if families.insert(name.to_owned(), family).is_some() {
                return Err(format!("a family appears twice: {line}"));
            }
            name.clone_into(&mut current);
        } else {
            let family = families.get_mut(&current).ok_or_else(|| broken(line))?;
            let (name, labels, value) = sample(line).ok_or_else(|| broken(line))?;
            let suffix = name.strip_prefix(current.as_str());
            let suffix = suffix.ok_or_else(|| format!("not of {current}: {line}"))?;
            let is_allowed = match family.kind.as_str() {
                "counter" => suffix == "_total" && value >= 0.0,
                "gauge" => suffix.is_empty(),
                "histogram" => ["_bucket", "_sum", "_count"].contains(&suffix),
                "info" => suffix == "_info" && (value - 1.0).abs() < f64::EPSILON,
                _ => false,
            };
            if !is_allowed {
                return Err(format!("not as a {} is: {line}", family.kind));
            }
            if !seen.insert((name.clone(), labels.clone())) {
                return Err(format!("a sample appears twice: {line}"));
            }
            family.samples.push((name, labels, value));
        }
    }
    for (name, family) in families.iter().filter(|(_, it)| it.kind == "histogram") {
        check_histograms(name, family)?;
    }
    Ok(families)
}

fn broken(line: &str) -> String {
    format!("cannot be read: {line}")
}

fn sample(line: &str) -> Option<(String, Labels, f64)> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let is_name = |text: &str| {
        let mut letters = text.chars();
        letters.next().is_some_and(|it| it.is_ascii_alphabetic())
            && letters.all(|it| it.is_ascii_alphanumeric() || it == '_')
    };
    let mut labels = Labels::new();
    let mut rest = rest;
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            let (label, after) = inside.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            if !is_name(label) || labels.insert(label.to_owned(), value).is_some() {
                return None;
            }
            match after.strip_prefix(',') {
                Some(more) => inside = more,
                None => break rest = after.strip_prefix('}')?,
            }
        }
    }
    let value = rest.strip_prefix(' ')?.parse().ok()?;
    is_name(name).then(|| (name.to_owned(), labels, value))
}

/// Reads up to the closing quote, and returns what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(match letters.next()?.1 {
                'n' => '\n',
                escaped @ ('"' | '\\') => escaped,
                _ => return None,
            }),
            letter => value.push(letter),
        }
    }
    None
}

fn check_histograms(name: &str, family: &Family) -> Result<(), String> {
    #[derive(Default)]
    struct Seen {
        buckets: Vec<(f64, f64)>,
        count: Option<f64>,
        sum: Option<f64>,
    }
    let mut histograms: BTreeMap<Labels, Seen> = BTreeMap::new();
    for (sample, labels, value) in &family.samples {
        let mut labels = labels.clone();
        let bound = labels.remove("le");
        let seen = histograms.entry(labels).or_default();
        match (sample.strip_prefix(name), bound) {
            (Some("_bucket"), Some(bound)) => {
                let parsed: Result<f64, _> = bound.parse();
                let number = parsed.map_err(|error| format!("{sample}: {bound}: {error}"))?;
                seen.buckets.push((number, *value));
            }
            (Some("_count"), None) => seen.count = Some(*value),
            (Some("_sum"), None) => seen.sum = Some(*value),
            _ => {
                return Err(format!(
                    "{sample} with a bound that it should not have, or without"
                ));
            }
        }
    }
    for (labels, seen) in histograms {
        let rises = |pair: &[(f64, f64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        let last = seen.buckets.last().copied();
        let is_whole = seen.buckets.windows(2).all(rises)
            && last.is_some_and(|(bound, count)| bound.is_infinite() && Some(count) == seen.count)
            && seen.sum.is_some_and(|sum| sum >= 0.0);
        if !is_whole {
            return Err(format!("{name}{labels:?} contradicts itself"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# HELP a What a is.\n# TYPE a counter\na_total{x=\"1\"} 2\na_total{x=\"\\\"2\\\\\"} 3\n\
        # HELP h What h is.\n# TYPE h histogram\nh_sum 1.5\nh_count 2\nh_bucket{le=\"1.0\"} 1\nh_bucket{le=\"+Inf\"} 2\n# EOF\n";

    #[test]
    fn what_breaks_a_rule_is_refused() {
        let families = parse(GOOD).expect("it keeps the rules");
        assert_eq!(families["a"].samples[1].1["x"], "\"2\\");
        for (name, old, new) in [
            ("no end", "# EOF\n", ""),
            ("no help", "# HELP a What a is.\n", ""),
            ("no type", "# TYPE h histogram\n", ""),
            ("another suffix", "a_total{x=\"1\"}", "a{x=\"1\"}"),
            ("a sample twice", "x=\"\\\"2\\\\\"", "x=\"1\""),
            (
                "a family twice",
                "# HELP h What h is.\n# TYPE h ",
                "# HELP a What a is.\n# TYPE a ",
            ),
            ("a sinking bucket", "le=\"1.0\"} 1", "le=\"1.0\"} 3"),
            ("a bucket less than the count", "h_count 2", "h_count 3"),
            ("no sum", "h_sum 1.5\n", ""),
            ("no last bucket", "h_bucket{le=\"+Inf\"} 2\n", ""),
            ("a sinking counter", "} 3\n", "} -3\n"),
            ("an open quote", "x=\"1\"", "x=\"1"),
            ("no number", "h_sum 1.5", "h_sum much"),
        ] {
            let bad = GOOD.replacen(old, new, 1);
            assert_ne!(bad, GOOD, "{name}");
            assert!(parse(&bad).is_err(), "{name}");
        }
    }
}
