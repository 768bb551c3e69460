//! The clusters of which an answer over all of them has nothing because their spokes did not answer.
//!
//! Invariant: they are reported. A client that does not accept partial results (`partial=true`) is refused, so that no client mistakes
//! silence for absence.

use api::{Status, StatusCause, StatusDetails, wheelhouse::keys::REASON_SPOKE_FAILED};

use crate::call::{Call, Failed, PARTIAL};
use crate::refusal::Refusal;

/// What a warning begins with that names something that is missing in an answer.
pub(crate) const LEFT_OUT: &str = "left out: ";
/// Clusters of which the reason is told, beside the name.
const REASON_COUNT_MAX: usize = 6;
/// Clusters that a refusal names to programs.
const CAUSE_COUNT_MAX: usize = 1000;
/// Lines of names of the others, and how long one is: a warning that is longer is cut.
const NAME_LINE_COUNT_MAX: usize = 8;
const NAME_LINE_BYTES_MAX: usize = 240;

/// Names the clusters of which nothing is told.
///
/// # Errors
/// 503, unless the client accepts partial results.
pub(super) fn tell(call: &Call<'_>, failed: &[Failed]) -> Result<(), Refusal> {
    if failed.is_empty() {
        return Ok(());
    }
    let (told, others) = failed.split_at(failed.len().min(REASON_COUNT_MAX));
    let mut lines: Vec<String> = told.iter().map(line).collect();
    lines.extend(lines_of_names(others));
    if call.query.flag(PARTIAL) {
        for line in lines {
            call.context.warn(format!("{LEFT_OUT}{line}"));
        }
        return Ok(());
    }
    let named = failed.iter().take(CAUSE_COUNT_MAX).enumerate();
    let causes = named.map(|(index, failed)| StatusCause {
        reason: REASON_SPOKE_FAILED.to_owned(),
        message: match index {
            ..REASON_COUNT_MAX => failed.reason.clone(),
            _ => String::new(),
        },
        field: failed.cluster.to_string(),
    });
    let details = StatusDetails {
        group: call.resource().group.clone(),
        kind: call.resource().resource.clone(),
        causes: causes.collect(),
        ..StatusDetails::default()
    };
    let text = format!(
        "not every cluster could be asked, and partial results were not requested ({PARTIAL}=true): {}",
        lines.join("; ")
    );
    let status = Status::service_unavailable(text).with_details(details);
    Err(status.into())
}

fn line(failed: &Failed) -> String {
    // Some reasons are those that the path of the cluster gives, and name it.
    if failed.reason.starts_with("spoke ") {
        return failed.reason.clone();
    }
    format!("spoke {:?}: {}", failed.cluster.as_str(), failed.reason)
}

/// Names as many as fit, and counts the rest.
fn lines_of_names(failed: &[Failed]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (index, spoke) in failed.iter().enumerate() {
        let name = spoke.cluster.as_str();
        let line_count = lines.len();
        match lines.last_mut() {
            Some(line)
                if line.len().saturating_add(name.len()).saturating_add(2)
                    <= NAME_LINE_BYTES_MAX =>
            {
                line.push_str(", ");
                line.push_str(name);
            }
            _ if line_count == NAME_LINE_COUNT_MAX => {
                let left = failed.len().saturating_sub(index);
                lines.push(format!("{left} more spokes"));
                break;
            }
            _ => lines.push(format!("spokes {name}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spokes_are_named_as_far_as_they_fit_and_counted_beyond() {
        let failed = |count: usize| -> Vec<Failed> {
            let names = (0..count).map(|number| format!("spoke-{number:04}"));
            let failed = names.map(|name| Failed {
                cluster: name.parse().expect("a name"),
                reason: String::new(),
            });
            failed.collect()
        };
        assert_eq!(lines_of_names(&[]), [""; 0]);
        assert_eq!(
            lines_of_names(&failed(2)),
            ["spokes spoke-0000, spoke-0001"]
        );
        let lines = lines_of_names(&failed(1000));
        let named: usize = lines
            .iter()
            .map(|line| line.matches("spoke-").count())
            .sum();
        assert_eq!(lines.last(), Some(&format!("{} more spokes", 1000 - named)));
        assert_eq!(lines.len(), NAME_LINE_COUNT_MAX + 1);
        assert!(
            lines.iter().all(|line| line.len() <= NAME_LINE_BYTES_MAX),
            "{lines:?}"
        );
    }
}
