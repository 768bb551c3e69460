use std::sync::{Arc, atomic::AtomicUsize};
use std::{collections::VecDeque, sync::atomic::Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;

/// A hub that gives answers in turn, and remembers what it was asked.
#[derive(Default)]
struct Canned {
    answers: Mutex<VecDeque<Response>>,
    asked: Mutex<Vec<String>>,
    has_place: bool,
    /// Counts the places that are held.
    held_count: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Given(Arc<AtomicUsize>);

impl Drop for Given {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Asker for Canned {
    async fn place(&self, _headers: &HeaderMap, _scope: &ClusterScope) -> Result<Held, Refusal> {
        if !self.has_place {
            return Err(Status::too_many_requests(1).into());
        }
        self.held_count.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Given(Arc::clone(&self.held_count))))
    }

    async fn ask(&self, request: Request<RequestBody>) -> Response {
        assert_eq!(
            self.held_count.load(Ordering::Relaxed),
            1,
            "there is a place"
        );
        self.asked.lock().push(request.uri().to_string());
        let next = self.answers.lock().pop_front();
        next.expect("no more is asked")
    }
}

fn answer_of(code: u16, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

fn list(names: &[&str], token: &str) -> Response {
    let items: Vec<Value> = names
        .iter()
        .map(|name| json!({"metadata": {"name": name}, "status": {"state": "ACTIVE"}}))
        .collect();
    let list = json!({"metadata": {"continue": token, "resourceVersion": "7"}, "items": items});
    answer_of(200, list.to_string())
}

/// An answer that goes on for as long as somebody reads it; counts what was read.
fn endless(code: u16) -> (Response, Arc<AtomicUsize>) {
    let read = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&read);
    let chunks = std::iter::repeat_with(move || {
        counter.fetch_add(64 * 1024, Ordering::Relaxed);
        Bytes::from(vec![b' '; 64 * 1024])
    });
    let mut response = Response::new(Body::chunks(chunks, None));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    (response, read)
}

/// Searches, and returns the answer, the questions, and how many places are held while the answer is not sent.
async fn search(query: &str, answers: Vec<Response>) -> (Result<Value, Status>, Vec<String>) {
    let hub = Canned {
        answers: Mutex::new(answers.into()),
        has_place: true,
        ..Canned::default()
    };
    let uri = format!("/ui/api/instances?{query}");
    let (parts, ()) = Request::get(uri).body(()).unwrap().into_parts();
    let answered = answer(Page::Instances, &parts, &hub).await;
    let result = match answered {
        Ok(response) => {
            let held_count = hub.held_count.load(Ordering::Relaxed);
            assert_eq!(held_count, 1, "until the answer is sent");
            let bytes = response.into_body().as_full().cloned().unwrap();
            Ok(serde_json::from_slice(&bytes).unwrap())
        }
        Err(refusal) => Err(refusal.status().expect("it says why").clone()),
    };
    assert_eq!(
        hub.held_count.load(Ordering::Relaxed),
        0,
        "it is given back"
    );
    (result, hub.asked.into_inner())
}

fn names(answer: &Value) -> Vec<&str> {
    let rows = answer["rows"].as_array().unwrap();
    rows.iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect()
}

const THREE: &str = "kind=as.v1.kro.run&kind=bs.v1.kro.run&kind=cs.v1.kro.run&sort=name";

#[tokio::test]
async fn nothing_is_asked_without_a_place() {
    let hub = Canned::default();
    let (parts, ()) = Request::get("/ui/api/instances?kind=as.v1.kro.run")
        .body(())
        .unwrap()
        .into_parts();
    for page in [
        Page::Instances,
        Page::Drawing {
            cluster: "root",
            definition: "a",
        },
    ] {
        let refused = answer(page, &parts, &hub).await.expect_err("it is refused");
        assert_eq!(refused.status().map(|it| it.code), Some(429));
    }
}

/// One tenant's spoke answered `<html>`, and nobody saw any instance.
#[tokio::test]
async fn what_is_wrong_with_one_kind_is_told_of_it_alone() {
    for (code, body, told) in [
        (200, "<html>", 502),
        (200, "{}", 502),
        (403, r#"{"message": "no"}"#, 403),
        (401, "", 403),
        (302, "", 502),
        (500, "<html>", 500),
    ] {
        let answers = vec![list(&["a"], ""), answer_of(code, body), list(&["c"], "")];
        let (answer, _) = search(THREE, answers).await;
        let answer = answer.expect("the others are shown");
        assert_eq!(names(&answer), ["a", "c"], "{code}");
        let failures = answer["failures"].as_array().unwrap();
        assert_eq!(failures.len(), 1, "{code}");
        assert_eq!(failures[0]["resource"], "bs.v1.kro.run");
        assert_eq!(failures[0]["code"], told, "{code}");
    }
}

#[tokio::test]
async fn who_may_read_none_is_refused_as_where_they_are_listed() {
    let body =
        r#"{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "alice may not"}"#;
    let answers = (0..3).map(|_| answer_of(403, body)).collect();
    let (refused, _) = search(THREE, answers).await;
    let status = refused.expect_err("all are refused");
    assert_eq!(
        (status.code, status.message.as_str()),
        (403, "alice may not")
    );
    assert_eq!(status.reason, StatusReason::Forbidden);
}

/// 64 refusals of 64 MiB each were kept by one call.
#[tokio::test]
async fn no_more_is_read_than_a_call_may_hold() {
    let (huge, read) = endless(200);
    let (refused, read_of_refused) = endless(500);
    let mut answers: Vec<Response> = vec![huge, refused];
    answers.push(list(&["c"], ""));
    // Fewer objects might be smaller.
    for _ in 0..3 {
        answers.insert(1, endless(200).0);
    }
    let (answer, asked) = search(THREE, answers).await;
    let answer = answer.expect("the others are shown");
    assert_eq!(names(&answer), ["c"]);
    let count_of = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    assert!(count_of(&read) <= ANSWER_BYTES_MAX + 128 * 1024);
    assert!(count_of(&read_of_refused) <= REFUSAL_BYTES_MAX + 128 * 1024);
    let limits: Vec<&str> = asked[..4]
        .iter()
        .filter_map(|path| path.split("limit=").nth(1)?.split('&').next())
        .collect();
    assert_eq!(limits, ["250", "32", "4", "1"]);
    assert_eq!(answer["failures"][0]["code"], 413);
    assert_eq!(answer["failures"][1]["code"], 500);
}

/// 45 instances of 1.5 MB made the page fail for everybody.
#[tokio::test]
async fn pages_of_large_objects_are_read_in_smaller_ones() {
    let answers = vec![
        endless(200).0,
        list(&["a"], "t1"),
        endless(200).0,
        list(&["b"], "t2"),
        list(&["c"], ""),
    ];
    let (answer, asked) = search("kind=as.v1.kro.run&sort=name", answers).await;
    let answer = answer.expect("it is shown");
    assert_eq!(names(&answer), ["a", "b", "c"]);
    assert_eq!(answer["failures"], json!([]));
    let path = "/clusters/*/apis/kro.run/v1/as?partial=true&limit=";
    let want = [
        "250",
        "32",
        "64&continue=t1",
        "8&continue=t1",
        "16&continue=t2",
    ];
    // As a browser has it, every page would be laid out for people.
    let full = |it: &&str| format!("{path}{it}&pretty=false");
    let want: Vec<String> = want.iter().map(full).collect();
    assert_eq!(asked, want);
}

#[tokio::test]
async fn a_list_without_end_is_read_so_far() {
    let again = vec![list(&["a"], "same"), list(&["b"], "same")];
    let (answer, _) = search("kind=as.v1.kro.run", again).await;
    assert_eq!(answer.expect("it is shown")["failures"][0]["code"], 502);
    let endless = (0..=PAGE_COUNT_MAX).map(|page| list(&["a"], &format!("t{page}")));
    let (answer, asked) = search("kind=as.v1.kro.run", endless.collect()).await;
    assert_eq!(answer.expect("it is shown")["failures"][0]["code"], 502);
    assert_eq!(asked.len(), PAGE_COUNT_MAX);
}

/// Any warning was told as a spoke that cannot be reached.
#[tokio::test]
async fn a_warning_is_a_failure_only_where_something_is_left_out() {
    let mut response = list(&["a"], "");
    for text in ["left out: spoke \\\"west\\\": away", "as.v1 is deprecated"] {
        let value = format!("299 - \"{text}\"");
        let value = HeaderValue::from_str(&value).unwrap();
        response.headers_mut().append(header::WARNING, value);
    }
    let (answer, _) = search("kind=as.v1.kro.run", vec![response]).await;
    let answer = answer.expect("it is shown");
    let failures =
        json!([{"resource": "as.v1.kro.run", "code": 503, "message": "spoke \"west\": away"}]);
    assert_eq!(answer["failures"], failures);
    assert_eq!(answer["warnings"][0]["message"], "as.v1 is deprecated");
}

/// Those of a spoke's own definition were asked of every other spoke.
#[tokio::test]
async fn a_kind_of_one_cluster_is_asked_for_there_alone() {
    let query = "kind=as.v1.kro.run@east&kind=bs.v1.kro.run@west&cluster=east";
    let (answer, asked) = search(query, vec![list(&["a"], "")]).await;
    assert_eq!(names(&answer.expect("it is shown")), ["a"]);
    let path = "/clusters/east/apis/kro.run/v1/as?partial=true&limit=250&pretty=false";
    assert_eq!(asked, [path]);
}

/// Kinds are read one after the other, each for a time of its own.
#[tokio::test]
async fn what_never_ends_is_given_up() {
    let silent = futures::stream::pending::<Result<http_body::Frame<Bytes>, std::io::Error>>();
    let silent = Response::new(Body::foreign(http_body_util::StreamBody::new(silent)));
    let hub = Canned {
        answers: Mutex::new(VecDeque::from([silent])),
        held_count: Arc::new(AtomicUsize::new(1)),
        ..Canned::default()
    };
    let end = Instant::now() + Duration::from_millis(50);
    let answer = read(&hub, &HeaderMap::new(), "/apis", end).await;
    assert!(matches!(answer, Answer::Refused(status) if status.code == 504));
}
