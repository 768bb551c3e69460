//! Kubernetes' `url` library.
//!
//! Only absolute URIs and absolute paths are URLs here (`url.ParseRequestURI`).
//!
//! Source: `k8s.io/apiserver/pkg/cel/library/urls.go`.

use std::collections::BTreeMap;

pub(crate) use dialect::url::Url;
use dialect::url::query_pairs;

use super::opaque::Opaque;
use super::{Entry, Returned, global, member};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Kind, Map, Text, Value};

const PART: &[&str] = &["(url) -> string"];

pub(super) const FUNCTIONS: &[Entry] = &[
    global("url", &["(string) -> url"], url),
    global("isURL", &["(string) -> bool"], is_url),
    member("getScheme", PART, scheme),
    member("getHost", PART, host),
    member("getHostname", PART, hostname),
    member("getPort", PART, port),
    member("getEscapedPath", PART, escaped_path),
    member("getQuery", &["(url) -> map(string, list(string))"], query),
];

fn url<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let [Value(Kind::String(text))] = args else {
        return Err(Failure::NoOverload);
    };
    match Url::parse(text) {
        Ok(url) => Ok(Value::opaque(Opaque::Url(url.into()))),
        Err(error) => Err(Failure::new(format!(
            "URL parse error during conversion from string: {error}"
        ))),
    }
}

fn is_url<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [Value(Kind::String(text))] => Ok(Value::bool(Url::parse(text).is_ok())),
        _ => Err(Failure::NoOverload),
    }
}

fn scheme<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    part(args, Url::scheme)
}

fn host<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    part(args, Url::host)
}

fn hostname<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    part(args, Url::hostname)
}

fn port<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    part(args, Url::port)
}

fn escaped_path<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    part(args, Url::escaped_path)
}

fn part<'v>(args: &[Value<'v>], part: impl Fn(&Url) -> &str) -> Returned<'v> {
    match args {
        [Value(Kind::Opaque(Opaque::Url(url)))] => Ok(Value::string(part(url))),
        _ => Err(Failure::NoOverload),
    }
}

fn query<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [Value(Kind::Opaque(Opaque::Url(url)))] = args else {
        return Err(Failure::NoOverload);
    };
    meter.charge_bytes(url.query().len())?;
    let mut values: BTreeMap<String, Vec<Value<'v>>> = BTreeMap::new();
    for (name, value) in query_pairs(url.query()) {
        values.entry(name).or_default().push(Value::string(value));
    }
    let entries = values
        .into_iter()
        .map(|(name, values)| (Text::Shared(name.into()), Value::list(values)));
    Ok(Value(Kind::Map(Map::of_text(entries.collect()))))
}
