//! The written form of signatures: `(list(T), int) -> T`.
//!
//! A capital letter is a type variable. `{comparable}` and `{summable}` stand for one signature per
//! type of that set, as in cel-go's templated overloads. Signatures are constants of this crate;
//! a test reads every one.

use crate::types::DeclType;

/// One way to call a function.
#[derive(Clone, Debug)]
pub(crate) struct Overload {
    pub(crate) params: Vec<DeclType>,
    pub(crate) result: DeclType,
}

/// The types that have an order.
const COMPARABLE: [&str; 8] = [
    "int",
    "uint",
    "double",
    "bool",
    "duration",
    "timestamp",
    "string",
    "bytes",
];

/// The types that add to themselves.
const SUMMABLE: [&str; 4] = ["int", "uint", "double", "duration"];

/// Reads a signature; returns nothing where it is malformed.
pub(crate) fn parse(text: &str) -> Option<Vec<Overload>> {
    for (class, types) in [("{comparable}", &COMPARABLE[..]), ("{summable}", &SUMMABLE)] {
        if text.contains(class) {
            return types
                .iter()
                .map(|ty| parse_one(&text.replace(class, ty)))
                .collect();
        }
    }
    Some(vec![parse_one(text)?])
}

fn parse_one(text: &str) -> Option<Overload> {
    let mut reader = Reader { rest: text };
    let params = reader.arguments()?;
    reader.token("->")?;
    let result = reader.ty()?;
    reader
        .rest
        .trim()
        .is_empty()
        .then_some(Overload { params, result })
}

struct Reader<'t> {
    rest: &'t str,
}

// === impl Reader ===

impl<'t> Reader<'t> {
    fn token(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(token)?;
        Some(())
    }

    fn arguments(&mut self) -> Option<Vec<DeclType>> {
        self.token("(")?;
        let mut types = Vec::new();
        if self.token(")").is_some() {
            return Some(types);
        }
        loop {
            types.push(self.ty()?);
            if self.token(")").is_some() {
                return Some(types);
            }
            self.token(",")?;
        }
    }

    fn ty(&mut self) -> Option<DeclType> {
        let name = self.name()?;
        let mut inner = match name {
            "list" | "map" | "optional" | "type" => self.arguments()?.into_iter(),
            _ => Vec::new().into_iter(),
        };
        Some(match name {
            "list" => DeclType::list(inner.next()?),
            "map" => DeclType::map(inner.next()?, inner.next()?),
            "optional" => DeclType::optional(inner.next()?),
            "type" => DeclType::Type(inner.next()?.into()),
            "dyn" => DeclType::Dyn,
            "null" => DeclType::Null,
            "bool" => DeclType::Bool,
            "int" => DeclType::Int,
            "uint" => DeclType::Uint,
            "double" => DeclType::Double,
            "string" => DeclType::String,
            "bytes" => DeclType::Bytes,
            "timestamp" => DeclType::Timestamp,
            "duration" => DeclType::Duration,
            "url" => DeclType::Opaque("kubernetes.URL"),
            "quantity" => DeclType::Opaque("kubernetes.Quantity"),
            "ip" => DeclType::Opaque("net.IP"),
            "cidr" => DeclType::Opaque("net.CIDR"),
            "semver" => DeclType::Opaque("kubernetes.Semver"),
            "format" => DeclType::Opaque("kubernetes.NamedFormat"),
            "condition" => DeclType::Opaque("kro.run.Condition"),
            "runtime" => DeclType::Opaque("kro.run.Runtime"),
            "authorizer" => DeclType::Opaque("kubernetes.authorization.Authorizer"),
            "pathcheck" => DeclType::Opaque("kubernetes.authorization.PathCheck"),
            "groupcheck" => DeclType::Opaque("kubernetes.authorization.GroupCheck"),
            "resourcecheck" => DeclType::Opaque("kubernetes.authorization.ResourceCheck"),
            "decision" => DeclType::Opaque("kubernetes.authorization.Decision"),
            variable => match variable.as_bytes() {
                [letter @ b'A'..=b'Z'] => DeclType::Param(u32::from(letter - b'A')),
                _ => return None,
            },
        })
    }

    fn name(&mut self) -> Option<&'t str> {
        let rest = self.rest.trim_start();
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        let (name, rest) = rest.split_at_checked(end)?;
        self.rest = rest;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::{ADMISSION, KRO, KRO_OMIT, VALIDATION};

    #[test]
    fn every_signature_of_every_library_can_be_read() {
        let libraries = KRO.iter().chain(KRO_OMIT).chain(VALIDATION);
        let libraries = libraries.chain(ADMISSION);
        for entry in libraries.copied().flatten().copied().flatten() {
            for signature in entry.signatures {
                assert!(parse(signature).is_some(), "{}: {signature}", entry.name);
            }
        }
    }

    #[test]
    fn classes_expand_and_letters_are_variables() {
        let overloads = parse("(list({summable})) -> {summable}").expect("well formed");
        let results: Vec<_> = overloads.iter().map(|o| o.result.to_string()).collect();
        assert_eq!(results, ["int", "uint", "double", "duration"]);
        let [overload] = &parse("(map(K, V), K) -> optional(V)").expect("well formed")[..] else {
            panic!("one signature");
        };
        assert_eq!(overload.params.len(), 2);
        assert_eq!(overload.result, DeclType::optional(DeclType::Param(21)));
        assert!(parse("(list(T) -> T").is_none());
        assert!(parse("(strings) -> T").is_none());
    }
}
