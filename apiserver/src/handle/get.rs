//! Get: one object, as it is stored.

use api::Status;
use api::query::{GetOptions, parse_resource_version};
use http::StatusCode;

use super::output::{self, Shown};
use crate::call::Call;
use crate::negotiate::Offer;
use crate::refusal::Refusal;
use crate::respond::Response;

pub(super) async fn get(call: &Call<'_>) -> Result<Response, Refusal> {
    let form = call.form(Offer::Object)?;
    let target = call.target()?;
    let options = GetOptions::from_query(call.query);
    check_not_newer(call, parse_resource_version(&options.resource_version)?)?;
    let entry = call.shared.store.get(&target.key);
    let entry = entry.ok_or_else(|| call.not_found(&target.name))?;
    output::object(call, form, StatusCode::OK, &Shown::Entry(entry)).await
}

/// Refuses a state that has not been yet. Every read here is of the newest state, so that any state that has been is
/// old enough.
pub(super) fn check_not_newer(call: &Call<'_>, wanted: Option<u64>) -> Result<(), Refusal> {
    let current = call.shared.store.revision().0;
    match wanted {
        Some(wanted) if wanted > current => {
            Err(Status::resource_version_too_large(wanted, current).into())
        }
        _ => Ok(()),
    }
}
