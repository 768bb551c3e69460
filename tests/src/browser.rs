//! Chromium, driven through its DevTools protocol: Debian's package, on a profile of the test's own.
//!
//! The protocol is JSON over a WebSocket on loopback (RFC 6455), of which this speaks what Chromium does: text, in frames of any size.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::{
    assets,
    process::{Process, Scratch},
    wait::within,
};

/// How long anything in a browser may take, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(40);
/// Between two looks at a page.
const LOOK_INTERVAL: Duration = Duration::from_millis(25);
/// Events of a page that are kept.
const EVENT_COUNT: usize = 1_000;
/// What Chromium is told: no window, no first-run pages, no calls home, and the hub's own authority.
const ARGUMENTS: [&str; 8] = [
    "--headless=new",
    // Root has no sandbox; what is shown here is the hub's own.
    "--no-sandbox",
    "--ignore-certificate-errors",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--remote-debugging-port=0",
    "--lang=en",
];

/// A running browser. Dropping it ends it.
#[derive(Debug)]
pub struct Browser {
    process: Process,
    port: u16,
    _profile: Scratch,
}

/// A tab, with a session storage of its own.
#[derive(Debug)]
pub struct Tab {
    socket: TcpStream,
    last_id: u64,
    events: VecDeque<Value>,
    /// What a trial has found wrong with its pages, to be told all at once.
    pub faults: Vec<String>,
}

// === impl Browser ===

impl Browser {
    /// Returns where Chromium is, if it is installed.
    pub fn installed() -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|folder| folder.join("chromium"))
            .find(|file| file.is_file())
    }

    /// Starts it and waits until it listens.
    pub async fn start(binary: &Path) -> Self {
        let profile = Scratch::new("chromium");
        let mut command = Command::new(binary);
        command.args(ARGUMENTS);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.arg("about:blank");
        command.env("HOME", profile.path());
        let process = Process::start(&command, &profile.file("chromium.log"));
        let file = profile.file("DevToolsActivePort");
        let port = within(PATIENCE, "chromium listens", || async {
            assert!(process.runs(), "chromium ended:\n{}", process.log());
            let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
            let (port, _) = text.split_once('\n').ok_or("half a file")?;
            port.parse().map_err(|_error| text.clone())
        })
        .await;
        Self {
            process,
            port,
            _profile: profile,
        }
    }

    /// Opens a tab of a size in CSS pixels.
    pub async fn tab(&self, width: u32, height: u32) -> Tab {
        assert!(
            self.process.runs(),
            "chromium ended:\n{}",
            self.process.log()
        );
        let host = format!("127.0.0.1:{}", self.port);
        let mut made = TcpStream::connect(&host).await.expect("chromium listens");
        let request = format!(
            "PUT /json/new?about:blank HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        );
        made.write_all(request.as_bytes())
            .await
            .expect("it is taken");
        let head = head_of(&mut made).await;
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase()
                .strip_prefix("content-length:")?
                .trim()
                .parse()
                .ok()
        });
        let mut body = vec![0; length.expect("it tells its length")];
        made.read_exact(&mut body).await.expect("a body");
        let target: Value = serde_json::from_slice(&body).expect("JSON");
        let id = target["id"].as_str().expect("the tab has an id");
        let mut socket = TcpStream::connect(&host).await.expect("chromium listens");
        let request = format!(
            "GET /devtools/page/{id} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        socket
            .write_all(request.as_bytes())
            .await
            .expect("it is taken");
        let head = head_of(&mut socket).await;
        assert!(head.contains(" 101 "), "{head}");
        let mut tab = Tab {
            socket,
            last_id: 0,
            events: VecDeque::new(),
            faults: Vec::new(),
        };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            tab.call(&format!("{domain}.enable"), json!({})).await;
        }
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        tab.call("Emulation.setDeviceMetricsOverride", size).await;
        tab
    }
}

// === impl Tab ===

impl Tab {
    /// Calls a method of the protocol.
    ///
    /// # Panics
    ///
    /// Where it fails.
    pub async fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let text = json!({"id": id, "method": method, "params": parameters}).to_string();
        self.send(text.as_bytes()).await;
        let answer = timeout(PATIENCE, async {
            loop {
                let message: Value = serde_json::from_str(&self.receive().await).expect("JSON");
                if message["id"] == id {
                    return message;
                }
                self.events.push_back(message);
                if self.events.len() > EVENT_COUNT {
                    self.events.pop_front();
                }
            }
        });
        let answer = answer.await.map_err(|_elapsed| method.to_owned());
        let answer = answer.expect("chromium answers in time");
        assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }

    /// Goes to an address.
    pub async fn open(&mut self, url: &str) {
        let answer = self.call("Page.navigate", json!({"url": url})).await;
        assert!(answer["errorText"].is_null(), "{url}: {answer}");
    }

    /// Evaluates an expression of JavaScript, and waits for a promise.
    ///
    /// # Panics
    ///
    /// Where it throws.
    pub async fn eval(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true});
        let answer = self.call("Runtime.evaluate", parameters).await;
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// Puts the tab before the others: one behind another draws nothing.
    pub async fn bring_to_front(&mut self) {
        self.call("Page.bringToFront", json!({})).await;
    }

    /// Waits until an expression is true, and returns how long that took.
    ///
    /// # Panics
    ///
    /// Where it stays false; the text of the page is told.
    pub async fn until(&mut self, expression: &str) -> Duration {
        self.bring_to_front().await;
        let begun = Instant::now();
        while self.eval(&format!("Boolean({expression})")).await != true {
            // A page that is being left has no body.
            let text = self.eval("document.body?.innerText").await;
            assert!(
                begun.elapsed() < PATIENCE,
                "{expression} stays false:\n{}",
                text.as_str().unwrap_or_default()
            );
            sleep(LOOK_INTERVAL).await;
        }
        begun.elapsed()
    }

    /// Presses a key.
    pub async fn press(&mut self, key: &str) {
        let text = if key.len() == 1 { key } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key});
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", event).await;
        }
    }

    /// Types a text into what has the focus.
    pub async fn insert(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text})).await;
    }

    /// Shows the page in light or dark.
    pub async fn scheme(&mut self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features).await;
    }

    /// Writes what is seen to `target/ui-screenshots/<name>.png`.
    pub async fn screenshot(&mut self, name: &str) {
        let answer = self
            .call("Page.captureScreenshot", json!({"format": "png"}))
            .await;
        let data = answer["data"].as_str().expect("a picture");
        let folder = assets::workspace().join("target/ui-screenshots");
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        let data = STANDARD.decode(data).expect("base64");
        std::fs::write(folder.join(format!("{name}.png")), data).expect("the file can be written");
    }

    /// Returns what the browser has complained of so far: exceptions of scripts and breaches of the policy.
    pub fn complaints(&self) -> Vec<String> {
        let is_complaint = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => {
                let entry = &event["params"]["entry"];
                let text = entry["text"].as_str().unwrap_or_default();
                entry["source"] == "security"
                    || text.contains("Content Security Policy")
                    || text.contains("Trusted")
            }
            Some("Runtime.consoleAPICalled") => event["params"]["type"] == "error",
            _ => false,
        };
        self.events
            .iter()
            .filter(is_complaint)
            .map(Value::to_string)
            .collect()
    }

    /// Sends a message in one masked frame.
    async fn send(&mut self, text: &[u8]) {
        let mut frame = vec![0x81];
        match text.len() {
            length @ 0..=125 => frame.push(0x80 | u8::try_from(length).expect("fits")),
            length @ 126..=0xffff => {
                frame.push(0xfe);
                frame.extend(u16::try_from(length).expect("fits").to_be_bytes());
            }
            length => {
                frame.push(0xff);
                frame.extend(u64::try_from(length).expect("fits").to_be_bytes());
            }
        }
        // The mask hides nothing on loopback; it has to be there.
        frame.extend([0; 4]);
        frame.extend(text);
        self.socket.write_all(&frame).await.expect("chromium reads");
    }

    /// Receives a message; pings are not answered, as Chromium sends none.
    async fn receive(&mut self) -> String {
        let mut message = Vec::new();
        loop {
            let mut head = [0; 2];
            self.socket
                .read_exact(&mut head)
                .await
                .expect("chromium goes on");
            let length = match head[1] & 0x7f {
                126 => u64::from(self.socket.read_u16().await.expect("a length")),
                127 => self.socket.read_u64().await.expect("a length"),
                length => u64::from(length),
            };
            let mut payload = vec![0; usize::try_from(length).expect("fits")];
            self.socket.read_exact(&mut payload).await.expect("a frame");
            assert!(matches!(head[0] & 0x0f, 0..=2), "the tab ended: {head:?}");
            message.extend(payload);
            if head[0] & 0x80 != 0 {
                return String::from_utf8(message).expect("text");
            }
        }
    }
}

/// Reads the head of an answer, and no byte further.
async fn head_of(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("an answer"));
    }
    String::from_utf8(head).expect("text")
}
