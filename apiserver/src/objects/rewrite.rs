//! Small changes to stored bytes on their way out: another `apiVersion`, another revision, the cluster's annotation,
//! metadata alone. Each copies the object once and moves nothing that it does not change.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::ops::Range;

use api::cluster::ANNOTATION as CLUSTER_ANNOTATION;

use super::scan::{Head, head};

/// Appends the object with `kcp.io/cluster` among its annotations; `None` if the bytes are no object.
///
/// An annotation of that name that is already there is the stored one of a client, and ours must be what is read: it
/// is put last, where JSON readers let it win.
pub fn splice_cluster(out: &mut Vec<u8>, object: &[u8], cluster: &str) -> Option<()> {
    let head = head(object)?;
    let mut entry = Vec::with_capacity(64);
    let (at, filled) = match &head.annotations {
        Some(range) if object.get(range.start) == Some(&b'{') => {
            let inner = object.get(range.clone())?;
            (range.end.checked_sub(1)?, inner != b"{}")
        }
        Some(_) => return None,
        None => return splice_annotations(out, object, &head, cluster),
    };
    if filled {
        entry.push(b',');
    }
    push_pair(&mut entry, cluster);
    replace(out, object, at..at, &entry)
}

/// Appends the object with another `apiVersion`; `None` if the bytes are no object.
pub fn with_api_version(out: &mut Vec<u8>, object: &[u8], api_version: &str) -> Option<()> {
    let place = head(object)?.api_version?;
    replace(out, object, place, api_version.as_bytes())
}

/// Appends the object with another `metadata.resourceVersion`; `None` if it has none.
pub fn with_revision(out: &mut Vec<u8>, object: &[u8], revision: u64) -> Option<()> {
    let place = head(object)?.resource_version?;
    let mut digits = itoa::Buffer::new();
    replace(out, object, place, digits.format(revision).as_bytes())
}

/// Appends `PartialObjectMetadata` made of the object's metadata; `None` if the bytes are no object.
pub fn write_partial_metadata(out: &mut Vec<u8>, object: &[u8]) -> Option<()> {
    let metadata = head(object)?.metadata;
    out.extend_from_slice(
        br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#,
    );
    out.extend_from_slice(object.get(metadata)?);
    out.push(b'}');
    Some(())
}

fn splice_annotations(
    out: &mut Vec<u8>,
    object: &[u8],
    head: &Head<'_>,
    cluster: &str,
) -> Option<()> {
    let mut entry = Vec::with_capacity(96);
    entry.extend_from_slice(br#""annotations":{"#);
    push_pair(&mut entry, cluster);
    entry.push(b'}');
    if object.get(head.metadata.clone())? != b"{}" {
        entry.push(b',');
    }
    let at = head.metadata.start.checked_add(1)?;
    replace(out, object, at..at, &entry)
}

fn push_pair(out: &mut Vec<u8>, cluster: &str) {
    for part in [
        &b"\""[..],
        CLUSTER_ANNOTATION.as_bytes(),
        b"\":\"",
        cluster.as_bytes(),
        b"\"",
    ] {
        out.extend_from_slice(part);
    }
}

fn replace(out: &mut Vec<u8>, object: &[u8], place: Range<usize>, with: &[u8]) -> Option<()> {
    let (before, after) = (object.get(..place.start)?, object.get(place.end..)?);
    out.reserve(object.len().saturating_add(with.len()));
    out.extend_from_slice(before);
    out.extend_from_slice(with);
    out.extend_from_slice(after);
    Some(())
}
