//! The values that only libraries understand.

use std::net::IpAddr;
use std::sync::Arc;

pub(crate) use super::authorization::Authorization;
pub(crate) use super::kro::conditions::{Condition, KEYS as CONDITION_KEYS};
pub(crate) use super::named_formats::NamedFormat;
pub(crate) use super::network::Cidr;
pub(crate) use super::quantity::Quantity;
pub(crate) use super::regex::Pattern;
pub(crate) use super::semver::Semver;
pub(crate) use super::urls::Url;

/// A library's own value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Opaque {
    Url(Arc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Quantity(Arc<Quantity>),
    Semver(Arc<Semver>),
    Format(NamedFormat),
    Condition(Arc<Condition>),
    /// kro's `runtime`.
    Runtime,
    /// kro's `omit()`.
    Omit,
    /// A regular expression that was compiled with the program.
    Pattern(Pattern),
    /// A question to an authorizer, or its answer.
    Authorization(Arc<Authorization>),
}

// === impl Opaque ===

impl Opaque {
    /// The type's name at run time.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Condition(_) => "kro.run.Condition",
            Self::Runtime => "kro.run.Runtime",
            Self::Omit => "kro.omit",
            Self::Pattern(_) => "string",
            Self::Authorization(authorization) => authorization.type_name(),
        }
    }
}
