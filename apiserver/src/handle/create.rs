//! Create: POST to a collection.

use api::query::CreateOptions;
use api::{Status, meta};
use http::StatusCode;

use super::received::receive;
use super::write::{Failure, Mode, Oversize, already_exists, insert};
use super::{decode, fields, output};
use crate::admit::origin;
use crate::call::Call;
use crate::negotiate::{self, Offer};
use crate::refusal::Refusal;
use crate::respond::{RequestBody, Response};
use crate::strategy::fields::wipe_system_fields;

pub(super) async fn create(call: &Call<'_>, body: RequestBody) -> Result<Response, Refusal> {
    call.cluster()?;
    let form = call.form(Offer::Object)?;
    let media = negotiate::content_type(&call.parts.headers, call.scope.typing().object_media())?;
    let bytes = receive(call.context, body).await?;
    let options = CreateOptions::from_query(call.query)?;
    let mut object = decode::object(call, media, &bytes, options.field_validation)?;
    call.context.note_object(&object);
    call.check_namespace(&mut object)?;
    if !meta::resource_version(&object).is_empty() {
        let text = "resourceVersion should not be set on objects to be created";
        return Err(Status::bad_request(text).into());
    }
    let kept_uid = origin::kept_uid(call, &object)?;
    wipe_system_fields(&mut object);
    if let Some(uid) = kept_uid {
        meta::set_uid(&mut object, &uid);
    }
    fields::drop_repeated_owners(call, &mut object);
    fields::track_create(call, &mut object, &options.field_manager);
    let name = meta::name(&object).to_owned();
    let mode = Mode::of(options.dry_run);
    match insert(call, object, mode, Oversize::DropManagedFields).await {
        Ok(shown) => output::object(call, form, StatusCode::CREATED, &shown).await,
        Err(Failure::Raced(existing)) => Err(already_exists(call, &name, existing.as_ref())),
        Err(Failure::Collided) => Err(Status::server_timeout(call.resource(), "create", 1).into()),
        Err(Failure::Refused(refusal)) => Err(refusal),
    }
}
