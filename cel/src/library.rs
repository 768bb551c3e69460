//! The functions that expressions can call.
//!
//! A library is a constant table: name, call style, signatures, implementation. The signatures are
//! what the checker reads; the implementation looks at the values it gets and answers
//! [`Failure::NoOverload`] where they are not its own, so that libraries can share a name
//! (`indexOf` of text and of lists). Nothing here keeps state or reads the world.
//!
//! Source: `cel-go/common/stdlib`, `cel-go/ext`, `k8s.io/apiserver/pkg/cel/library`,
//! `kro/pkg/cel/library`.

use crate::budget::Meter;
use crate::error::Failure;
use crate::value::Value;

pub(crate) mod authorization;
mod convert;
mod encoders;
pub(crate) mod format;
mod json_patch;
mod kro;
pub(crate) mod lists;
mod named_formats;
mod network;
pub(crate) mod opaque;
pub(crate) mod operators;
mod optional;
mod quantity;
mod regex;
mod semver;
mod sets;
mod signature;
mod standard;
mod strings;
mod times;
mod urls;

pub(crate) use regex::Pattern;
pub(crate) use signature::{Overload, parse as parse_signatures};

/// What a function does with its arguments; a member's receiver comes first.
pub(crate) type Implementation = for<'v> fn(&[Value<'v>], &mut Meter) -> Result<Value<'v>, Failure>;

/// The result of an implementation.
pub(crate) type Returned<'v> = Result<Value<'v>, Failure>;

/// How a function is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `f(x)`.
    Global,
    /// `x.f()`.
    Member,
}

/// One function of a library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) style: Style,
    pub(crate) signatures: &'static [&'static str],
    pub(crate) call: Implementation,
}

/// A set of libraries.
pub(crate) type Libraries = &'static [&'static [Entry]];

/// What both environments have.
const COMMON: Libraries = &[
    operators::FUNCTIONS,
    standard::FUNCTIONS,
    convert::FUNCTIONS,
    strings::FUNCTIONS,
    optional::FUNCTIONS,
    lists::EXTENSION,
    lists::KUBERNETES,
    regex::FUNCTIONS,
    urls::FUNCTIONS,
    quantity::FUNCTIONS,
    network::FUNCTIONS,
    semver::FUNCTIONS,
    times::FUNCTIONS,
];

/// The libraries of kro's expressions.
pub(crate) const KRO: &[Libraries] = &[
    COMMON,
    &[
        strings::REVERSE,
        format::FUNCTIONS,
        encoders::FUNCTIONS,
        kro::random::FUNCTIONS,
        kro::maps::FUNCTIONS,
        kro::json::FUNCTIONS,
        kro::hash::FUNCTIONS,
        kro::lists::FUNCTIONS,
        kro::conditions::FUNCTIONS,
    ],
];

/// What kro adds where its gate `CELOmitFunction` is open.
pub(crate) const KRO_OMIT: &[Libraries] = &[&[kro::omit::FUNCTIONS]];

/// The libraries of `x-kubernetes-validations`.
pub(crate) const VALIDATION: &[Libraries] = &[
    &[strings::INDEX_OF_NOTHING, format::FIRST],
    COMMON,
    &[
        semver::NORMALIZE,
        sets::FUNCTIONS,
        named_formats::FUNCTIONS,
        convert::INT_TO_DURATION,
    ],
];

/// The libraries of admission: policies, and the conditions of webhooks.
pub(crate) const ADMISSION: &[Libraries] = &[&[authorization::FUNCTIONS]];

/// What the mutations of admission policies have beside them.
pub(crate) const MUTATION: &[Libraries] = &[&[json_patch::FUNCTIONS]];

/// Describes `f(x)`.
const fn global(
    name: &'static str,
    signatures: &'static [&'static str],
    call: Implementation,
) -> Entry {
    Entry {
        name,
        style: Style::Global,
        signatures,
        call,
    }
}

/// Describes `x.f()`.
const fn member(
    name: &'static str,
    signatures: &'static [&'static str],
    call: Implementation,
) -> Entry {
    Entry {
        name,
        style: Style::Member,
        signatures,
        call,
    }
}
