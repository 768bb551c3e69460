//! Options of get, list and watch.

use dialect::number::parse_uint;

use super::{Query, refuse};
use crate::field::{FieldError, FieldPath};
use crate::selector::{FieldSelector, Selector};
use crate::status::Status;

/// Options of get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetOptions {
    /// How fresh the answer must be.
    pub resource_version: String,
}

/// Options of list and watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Which labels are selected.
    pub label_selector: Selector,
    /// Which fields are selected.
    pub field_selector: FieldSelector,
    /// Whether changes are wanted.
    pub watch: bool,
    /// Whether bookmarks are welcome.
    pub allow_watch_bookmarks: bool,
    /// How fresh the answer must be, or where the watch begins.
    pub resource_version: String,
    /// What the version means for a list.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// When the server ends the call.
    pub timeout_seconds: Option<i64>,
    /// How many objects a page may have; 0 stands for all.
    pub limit: i64,
    /// Where the page begins; empty for the first one.
    pub continue_token: String,
    /// Whether a watch begins with the objects that are there.
    pub send_initial_events: Option<bool>,
}

/// What the resource version of a list means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceVersionMatch {
    /// At this version exactly.
    Exact,
    /// At this version or a newer one.
    NotOlderThan,
}

// === impl GetOptions ===

impl GetOptions {
    /// Reads the options of a query.
    pub fn from_query(query: &Query) -> Self {
        Self {
            resource_version: query.text("resourceVersion").to_owned(),
        }
    }
}

// === impl ListOptions ===

impl ListOptions {
    /// Reads and judges the options of a query.
    pub fn from_query(query: &Query) -> Result<Self, Status> {
        // Numbers are read before what the texts say.
        let (timeout_seconds, limit) = (query.integer("timeoutSeconds")?, query.integer("limit")?);
        let label_selector = Selector::parse(query.text("labelSelector"))
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let field_selector = FieldSelector::parse(query.text("fieldSelector"))
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let match_text = query.text("resourceVersionMatch");
        let options = Self {
            label_selector,
            field_selector,
            watch: query.flag("watch"),
            allow_watch_bookmarks: query.flag("allowWatchBookmarks"),
            resource_version: query.text("resourceVersion").to_owned(),
            resource_version_match: ResourceVersionMatch::from_text(match_text),
            timeout_seconds,
            limit: limit.unwrap_or_default(),
            continue_token: query.text("continue").to_owned(),
            send_initial_events: query.optional_flag("sendInitialEvents"),
        };
        let errors = if options.watch {
            options.validate_watch(match_text)
        } else {
            options.validate_list(match_text)
        };
        refuse("ListOptions", errors)?;
        if !options.watch
            && !options.continue_token.is_empty()
            && !matches!(options.resource_version.as_str(), "" | "0")
        {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        Ok(options)
    }

    fn validate_list(&self, match_text: &str) -> Vec<FieldError> {
        let path = FieldPath::new("resourceVersionMatch");
        let mut errors = Vec::new();
        if !match_text.is_empty() {
            if self.resource_version.is_empty() {
                errors.push(FieldError::forbidden(
                    &path,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if !self.continue_token.is_empty() {
                errors.push(forbidden_with_continue(&path));
            }
            if self.resource_version_match.is_none() {
                errors.push(FieldError::not_supported(
                    &path,
                    match_text,
                    ["Exact", "NotOlderThan", ""],
                ));
            }
            if self.resource_version_match == Some(ResourceVersionMatch::Exact)
                && self.resource_version == "0"
            {
                errors.push(FieldError::forbidden(
                    &path,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
        if self.send_initial_events.is_some() {
            errors.push(FieldError::forbidden(
                &FieldPath::new("sendInitialEvents"),
                "sendInitialEvents is forbidden for list",
            ));
        }
        errors
    }

    fn validate_watch(&self, match_text: &str) -> Vec<FieldError> {
        let path = FieldPath::new("resourceVersionMatch");
        let not_older = self.resource_version_match == Some(ResourceVersionMatch::NotOlderThan);
        let mut errors = Vec::new();
        if self.send_initial_events.is_some() && !not_older {
            errors.push(FieldError::forbidden(
                &path,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if !match_text.is_empty() {
            if self.send_initial_events.is_none() {
                errors.push(FieldError::forbidden(
                    &path,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            if !not_older {
                errors.push(FieldError::not_supported(
                    &path,
                    match_text,
                    ["NotOlderThan"],
                ));
            }
            if !self.continue_token.is_empty() {
                errors.push(forbidden_with_continue(&path));
            }
        }
        errors
    }
}

// === impl ResourceVersionMatch ===

impl ResourceVersionMatch {
    fn from_text(text: &str) -> Option<Self> {
        match text {
            "Exact" => Some(Self::Exact),
            "NotOlderThan" => Some(Self::NotOlderThan),
            _ => None,
        }
    }
}

/// Reads a resource version that must be a number; empty and `0` are `None`.
///
/// # Errors
/// 400 where it is no number, in the words of a list. A watch says 422 to the same text; see
/// [`ListOptions::watch_from`].
pub fn parse_resource_version(text: &str) -> Result<Option<u64>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    match parse_uint(text) {
        Ok(0) => Ok(None),
        Ok(version) => Ok(Some(version)),
        Err(cause) => Err(Status::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {}: {cause}",
            dialect::quote(text)
        ))),
    }
}

impl ListOptions {
    /// Reads where a watch begins; empty and `0` are `None`.
    ///
    /// # Errors
    /// 422 where it is no number.
    pub fn watch_from(&self) -> Result<Option<u64>, Status> {
        if self.resource_version.is_empty() {
            return Ok(None);
        }
        match parse_uint(&self.resource_version) {
            Ok(0) => Ok(None),
            Ok(version) => Ok(Some(version)),
            Err(cause) => {
                let error = FieldError::invalid(
                    &FieldPath::new("resourceVersion"),
                    self.resource_version.as_str(),
                    cause,
                );
                refuse("ListOptions", vec![error]).map(|()| None)
            }
        }
    }
}

fn forbidden_with_continue(path: &FieldPath) -> FieldError {
    FieldError::forbidden(
        path,
        "resourceVersionMatch is forbidden when continue is provided",
    )
}
