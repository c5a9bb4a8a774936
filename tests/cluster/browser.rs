//! A real browser: headless Chromium, controlled by W3C's `WebDriver` protocol.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use data_encoding::BASE64;
use kaudit_test_support::child::ChildGuard;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::PATIENCE;

/// Keys used by the tests, as encoded by `WebDriver`.
pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";

/// axe-core, which checks accessibility, as installed by `.ci/browser`.
const AXE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/../tools/axe/node_modules/axe-core/axe.min.js");

/// Whether a browser and axe-core are installed; without them, tests of the page are skipped, and fail in CI.
pub(crate) fn require_browser() -> bool {
    let version = Command::new("chromedriver").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let there = version.is_ok_and(|status| status.success()) && std::path::Path::new(AXE).exists();
    let why = "there is no Chromium with its chromedriver, or no axe-core; .ci/browser installs them";
    assert!(there || std::env::var_os("CI").is_none(), "{why}");
    if !there {
        eprintln!("SKIPPED: {why}");
    }
    there
}

/// A browser window with its own profile. It is closed at the end of the test, also on failure.
pub(crate) struct Browser {
    _driver: ChildGuard,
    port: u16,
    session: String,
    /// The profile directory of the browser.
    profile: TempDir,
}

impl Browser {
    /// Opens a window of this width, with scripts enabled or not.
    pub(crate) fn open(width: u32, scripts: bool) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut driver = Command::new("chromedriver")
            .args(["--port=0", "--allowed-ips=127.0.0.1"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
        // Constructed before anything can panic, so that the process is ended when it is dropped.
        let mut browser = Self { _driver: ChildGuard(driver), port: 0, session: String::new(), profile };
        let mut output = Vec::new();
        for line in lines {
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                browser.port = port.trim_end_matches('.').parse().unwrap();
                break;
            }
            output.push(line);
        }
        assert_ne!(browser.port, 0, "{output:#?}");
        let directory = browser.profile.path().display();
        let arguments = [
            "--headless=new".to_owned(),
            // Containers do not allow the sandbox's namespaces.
            "--no-sandbox".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-gpu".to_owned(),
            // Grayscale text on any screen, which makes pictures small.
            "--disable-lcd-text".to_owned(),
            "--disable-background-networking".to_owned(),
            format!("--window-size={width},1200"),
            format!("--user-data-dir={directory}"),
        ];
        let scripts = if scripts { 1 } else { 2 };
        let capabilities = json!({
            "goog:chromeOptions": {
                "args": arguments,
                "prefs": {"profile.managed_default_content_settings.javascript": scripts},
            },
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            // axe takes long on a busy machine; half a minute is the default.
            "timeouts": {"script": PATIENCE.as_millis()},
        });
        let session = browser.post("/session", &json!({"capabilities": {"alwaysMatch": capabilities}}));
        session["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        browser
    }

    /// Goes to a URL and waits until it is loaded.
    pub(crate) fn go(&self, url: &str) {
        self.command("url", &json!({"url": url}));
    }

    /// Returns the current URL.
    pub(crate) fn url(&self) -> String {
        self.evaluate("return location.href").as_str().unwrap().to_owned()
    }

    /// Returns the result of a script in the page; also works where the page may not run scripts.
    pub(crate) fn evaluate(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until an expression in the page is true.
    pub(crate) fn until(&self, what: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.evaluate(&format!("return Boolean({what})")) != true {
            assert!(Instant::now() < deadline, "waited in vain for {what} in {}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the visible text.
    pub(crate) fn text(&self) -> String {
        self.evaluate("return document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    /// Sets the width of the window in pixels.
    pub(crate) fn resize(&self, width: u32) {
        self.command("window/rect", &json!({"width": width, "height": 1_200}));
    }

    /// Sets the size of the page in pixels, independent of the window, without scroll bars.
    pub(crate) fn view(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        let bars = json!({"hidden": true});
        for (command, params) in [("setDeviceMetricsOverride", size), ("setScrollbarsHidden", bars)] {
            let command = format!("Emulation.{command}");
            self.command("goog/cdp/execute", &json!({"cmd": command, "params": params}));
        }
    }

    /// Returns a screenshot as PNG.
    pub(crate) fn picture(&self) -> Vec<u8> {
        let params = json!({"format": "png", "optimizeForSpeed": false});
        let shot = self.command("goog/cdp/execute", &json!({"cmd": "Page.captureScreenshot", "params": params}));
        BASE64.decode(shot["data"].as_str().unwrap().as_bytes()).unwrap()
    }

    /// Sets the preferred colour scheme, `dark` or `light`.
    pub(crate) fn prefer(&self, scheme: &str) {
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.command("goog/cdp/execute", &json!({"cmd": "Emulation.setEmulatedMedia", "params": media}));
    }

    /// Returns the violations of WCAG 2.2 (A and AA) and best practices that axe-core finds.
    pub(crate) fn accessibility_violations(&self) -> Value {
        self.evaluate(&std::fs::read_to_string(AXE).unwrap());
        self.evaluate(
            "return (async () => {\n\
             const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];\n\
             const {violations, passes} = await axe.run(document, {runOnly: tags});\n\
             if (passes.length < 10) throw new Error('axe looked at next to nothing');\n\
             return violations.map(({id, nodes}) => ({id, nodes: nodes.map(({html, failureSummary}) => [html, failureSummary])}));\n\
             })()",
        )
    }

    /// Presses a key, or types a text.
    pub(crate) fn press(&self, keys: &str) {
        let keys = keys.chars().flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key})));
        let keys: Vec<Value> = keys.collect();
        self.command("actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": keys}]}));
    }

    /// Returns the console messages since the last call.
    pub(crate) fn console(&self) -> Vec<String> {
        let log = self.command("se/log", &json!({"type": "browser"}));
        log.as_array().unwrap().iter().map(|entry| entry["message"].to_string()).collect()
    }

    /// Returns the URLs requested since the last call; a new window also makes requests of its own.
    pub(crate) fn requests(&self) -> Vec<String> {
        let log = self.command("se/log", &json!({"type": "performance"}));
        let sent = |entry: &Value| {
            let message: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let is_request = message["message"]["method"] == "Network.requestWillBeSent";
            let url = message["message"]["params"]["request"]["url"].as_str()?.to_owned();
            (is_request && url.starts_with("http")).then_some(url)
        };
        log.as_array().unwrap().iter().filter_map(sent).collect()
    }

    fn command(&self, name: &str, body: &Value) -> Value {
        self.post(&format!("/session/{}/{name}", self.session), body)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.request("POST", path, &body.to_string()).unwrap();
        assert!(answer["value"]["error"].is_null(), "{path}: {answer}");
        answer["value"].clone()
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let length = body.len();
        let head = "Host: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json";
        write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
        // chromedriver may leave the connection open.
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        serde_json::from_slice(&body).ok()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            // Ends the browser, a child of the driver.
            drop(self.request("DELETE", &format!("/session/{}", self.session), ""));
        }
    }
}
