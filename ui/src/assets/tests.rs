use std::{collections::BTreeSet, io::Read as _, path::Path};

use flate2::read::GzDecoder;

use super::*;

/// What a page may weigh on its way, all of its files together.
const WEIGHT_BYTES_MAX: usize = 150 * 1024;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("web")
}

fn text_of(response: &Response<Bytes>) -> String {
    String::from_utf8(response.body().to_vec()).unwrap()
}

#[test]
fn every_file_of_the_folder_is_served() {
    let mut found = BTreeSet::new();
    for folder in [folder(), folder().join("vendor")] {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() && !path.ends_with("manifest.json") {
                let name = path.strip_prefix(self::folder()).unwrap();
                found.insert(name.display().to_string());
            }
        }
    }
    let served: BTreeSet<String> = ASSETS.iter().map(|asset| asset.name.to_owned()).collect();
    assert_eq!(served, found);
}

#[test]
fn a_file_is_sent_once_and_then_known_by_its_tag() {
    let asset = find("app.js").unwrap();
    let plain = asset.answer(&HeaderMap::new(), false);
    assert_eq!(plain.status(), StatusCode::OK);
    assert_eq!(text_of(&plain), asset.text);
    let packed = asset.answer(&HeaderMap::new(), true);
    assert_eq!(packed.headers()[header::CONTENT_ENCODING], "gzip");
    let mut unpacked = String::new();
    let mut decoder = GzDecoder::new(packed.body().as_ref());
    decoder.read_to_string(&mut unpacked).unwrap();
    assert_eq!(unpacked, asset.text);
    for tag in [
        plain.headers()[header::ETAG].to_str().unwrap().to_owned(),
        format!(
            "\"x\", W/{}",
            plain.headers()[header::ETAG].to_str().unwrap()
        ),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, tag.parse().unwrap());
        let known = asset.answer(&headers, true);
        assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
        assert!(known.body().is_empty());
        assert!(
            known
                .headers()
                .contains_key(header::CONTENT_SECURITY_POLICY)
        );
    }
}

#[test]
fn no_page_has_a_script_or_style_in_it_or_names_another_host() {
    for asset in ASSETS
        .iter()
        .filter(|asset| !asset.name.starts_with("vendor/"))
    {
        let text = asset.text;
        for foreign in [
            "https://",
            "http://",
            "innerHTML",
            "eval(",
            "unsafeHTML",
            " style=\"",
        ] {
            let count = text.matches(foreign).count()
                - text.matches("http://www.w3.org/2000/svg").count()
                    * usize::from(foreign == "http://");
            assert_eq!(count, 0, "{} has {foreign}", asset.name);
        }
    }
    let page = find("").unwrap().text;
    assert!(!page.contains("<style") && !page.contains(" onload="));
    for script in page.split("<script").skip(1) {
        assert!(
            script.trim_start().starts_with("type=\"module\" src=\""),
            "{script}"
        );
        assert!(script.contains("\"></script>"), "{script}");
    }
}

#[test]
fn all_files_together_are_light() {
    let weight: usize = ASSETS
        .iter()
        .map(|asset| asset.answer(&HeaderMap::new(), true).body().len())
        .sum();
    assert!(weight <= WEIGHT_BYTES_MAX, "{weight} bytes");
}

#[test]
fn what_others_wrote_is_as_the_manifest_says() {
    let manifest = include_str!("../../web/vendor/manifest.json");
    let manifest: serde_json::Value = serde_json::from_str(manifest).unwrap();
    for (name, entry) in manifest.as_object().unwrap() {
        let text = find(&format!("vendor/{name}")).unwrap().text;
        let hash: String = Sha256::digest(text.as_bytes())
            .iter()
            .copied()
            .flat_map(hexadecimal)
            .collect();
        assert_eq!(entry["sha256"], hash, "{name}");
    }
}
