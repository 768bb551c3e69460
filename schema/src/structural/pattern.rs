//! A pattern of a schema, compiled when it first meets a value.

use std::sync::{Arc, OnceLock};

use dialect::pattern::{PatternError, compile};
use regex::Regex;

/// Compiled size at which a pattern is refused. Go's own bound is its repetition limit; the largest Unicode class
/// repeated that often needs about this much.
const COMPILED_BYTES_MAX: usize = 32 << 20;

/// A pattern in Go's dialect.
#[derive(Debug, Clone)]
pub struct Pattern {
    source: Box<str>,
    compiled: OnceLock<Result<Arc<Regex>, PatternError>>,
}

// === impl Pattern ===

impl Pattern {
    /// Returns a pattern that is not yet compiled.
    pub fn new(source: &str) -> Self {
        Self {
            source: source.into(),
            compiled: OnceLock::new(),
        }
    }

    /// Returns the pattern as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the pattern is found somewhere in `text`.
    ///
    /// # Errors
    /// The pattern does not compile.
    pub fn is_match(&self, text: &str) -> Result<bool, PatternError> {
        match self
            .compiled
            .get_or_init(|| compile(&self.source, COMPILED_BYTES_MAX).map(Arc::new))
        {
            Ok(regex) => Ok(regex.is_match(text)),
            Err(error) => Err(error.clone()),
        }
    }

    /// Checks that it compiles, without keeping the result.
    ///
    /// # Errors
    /// The pattern does not compile.
    pub fn check(&self) -> Result<(), PatternError> {
        compile(&self.source, COMPILED_BYTES_MAX).map(drop)
    }
}
