//! The versions of a kind: owners may have written at different ones, and each owner's fields are compared at its own.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use crate::structural::Schema;

/// The served versions of a kind and the way between them.
pub trait VersionConverter: fmt::Debug {
    /// The schema of a version; `None` if the version is not served, and then its owners are forgotten.
    fn schema(&self, api_version: &str) -> Option<&Schema>;

    /// Converts an object to a version that [`Self::schema`] knows.
    ///
    /// # Errors
    ///
    /// Returns why the object has no form in that version.
    fn convert<'v>(&self, object: &'v Value, api_version: &str) -> Result<Cow<'v, Value>, String>;
}

/// A kind of one version.
#[derive(Debug, Clone, Copy)]
pub struct OneVersion<'a> {
    /// The version.
    pub api_version: &'a str,
    /// Its schema.
    pub schema: &'a Schema,
}

/// A kind whose versions differ in their schemas and not in their objects: conversion strategy `None`.
#[derive(Debug, Clone)]
pub struct SameObject<'a> {
    /// The versions, `group/version`, and their schemas.
    pub versions: Vec<(String, &'a Schema)>,
}

impl VersionConverter for OneVersion<'_> {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        (api_version == self.api_version).then_some(self.schema)
    }

    fn convert<'v>(&self, object: &'v Value, _api_version: &str) -> Result<Cow<'v, Value>, String> {
        Ok(Cow::Borrowed(object))
    }
}

impl VersionConverter for SameObject<'_> {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        let found = self
            .versions
            .iter()
            .find(|(version, _)| version == api_version);
        found.map(|(_, schema)| *schema)
    }

    fn convert<'v>(&self, object: &'v Value, api_version: &str) -> Result<Cow<'v, Value>, String> {
        if object.get("apiVersion").and_then(Value::as_str) == Some(api_version) {
            return Ok(Cow::Borrowed(object));
        }
        let mut converted = object.clone();
        if let Value::Object(fields) = &mut converted {
            fields.insert("apiVersion".to_owned(), Value::from(api_version));
        }
        Ok(Cow::Owned(converted))
    }
}
