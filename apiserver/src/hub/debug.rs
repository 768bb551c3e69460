//! `/debug`: what an operator looks at, and turns, in a process that misbehaves.
//!
//! Only at root without a prefix, and only for who may `get` (or `put`) these paths there: they name users, and a log filter decides
//! what is written of all of them.
//!
//! Source: `apiserver/pkg/server/routes/flags.go` (`/debug/flags/v`), whose verbosity is here the filter of the log.

use http::{Method, StatusCode, request::Parts};
use serde_json::json;
use tasks::Tasks;
use tokio::time::Instant;
use tracing::info;

use crate::{
    authorize::Authorized,
    config::LogFilter,
    negotiate::{self, Offer},
    quota::Quotas,
    refusal::Refusal,
    request::RequestInfo,
    respond::{self, RequestBody, Response},
};
use api::status::Status;

const ROOT: &str = "/debug";
const LOG: &str = "/debug/flags/log";
const TASKS: &str = "/debug/tasks";
const USERS: &str = "/debug/users";

/// Bytes of a filter: some dozen directives.
const FILTER_BYTES_MAX: usize = 4 * 1024;

/// What can be looked at.
pub(super) struct Debug<'a> {
    pub(super) log: Option<&'a dyn LogFilter>,
    pub(super) tasks: &'a Tasks,
    pub(super) quotas: &'a Quotas,
}

/// Whether a request is for one of the pages.
pub(super) fn is_asked_for(info: &RequestInfo) -> bool {
    let cluster = info.cluster.one();
    let below = info.path.strip_prefix(ROOT);
    cluster.is_some_and(api::LogicalCluster::is_root)
        && below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

// === impl Debug ===

impl Debug<'_> {
    /// Answers.
    ///
    /// # Errors
    /// 404 for a page that is not there, 405 for what it does not do, 400 for a text that is no filter.
    pub(super) async fn serve(
        &self,
        request: &Authorized<Parts>,
        body: RequestBody,
    ) -> Result<Response, Refusal> {
        let method = &request.request().method;
        let path = request.info().path.trim_end_matches('/');
        match (path, method) {
            (LOG, &Method::PUT) => {
                let context = request.context();
                self.set_log(body, context.deadline, &context.user.username)
                    .await
            }
            (ROOT | LOG | TASKS | USERS, &Method::GET) => self.page(request, path),
            (ROOT | LOG | TASKS | USERS, _) => Err(Refusal::no_such_method()),
            _ => Err(Refusal::no_such_path()),
        }
    }

    fn page(&self, request: &Authorized<Parts>, path: &str) -> Result<Response, Refusal> {
        let value = match path {
            LOG => {
                let log = self.log.ok_or_else(Refusal::no_such_path)?;
                return Ok(respond::text(StatusCode::OK, log.get() + "\n"));
            }
            TASKS => json!(self.tasks.running()),
            USERS => json!(self.quotas.users()),
            _ => json!({"paths": [LOG, TASKS, USERS]}),
        };
        let form = negotiate::accept(request.request(), Offer::Plain)?;
        respond::value(StatusCode::OK, form, &value)
    }

    async fn set_log(
        &self,
        body: RequestBody,
        deadline: Instant,
        user: &str,
    ) -> Result<Response, Refusal> {
        let log = self.log.ok_or_else(Refusal::no_such_path)?;
        let bytes = body.read(FILTER_BYTES_MAX, deadline).await?;
        let text = str::from_utf8(&bytes)
            .map_err(|_invalid| Status::bad_request("the filter is not UTF-8".to_owned()))?;
        let before = log.get();
        let set = log.set(text.trim());
        set.map_err(|error| {
            Status::bad_request(format!(
                "this is no filter, and the old one stays: {error}; write one such as info,wheelhouse_syncer=debug"
            ))
        })?;
        let filter = log.get();
        info!(user, filter, before, "set the filter of the log");
        let told = format!("successfully set the log filter to {filter}, from {before}\n");
        Ok(respond::text(StatusCode::OK, told))
    }
}
