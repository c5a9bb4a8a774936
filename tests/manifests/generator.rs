//! Generates manifest files with all features of YAML and JSON, valid and invalid.

use std::fmt::Write as _;

use fastrand::Rng;

/// Plain scalars with a special meaning, or nearly, one per line.
const PLAIN: &str = include_str!("plain.txt");

/// Texts for quoted scalars, escaped as in double quotes.
const QUOTED: &[&str] = &[
    "",
    " ",
    "a",
    " a ",
    "123",
    "true",
    "null",
    "~",
    "a\\nb",
    "\\t",
    "\\\"",
    "\\\\",
    "\\/",
    "\\x41",
    "\\x80",
    "\\u00e9",
    "\\u2028",
    "\\U0001F600",
    "\\e",
    "\\0",
    "\\a\\b\\v\\f\\r",
    "\\N\\_\\L\\P",
    "a: b",
    "# c",
    "- a",
    "{a",
    "\\ ",
    "é",
    "\\ud83d\\ude00",
    "\\q",
];

const TAGS: &[&str] = &[
    "!!str",
    "!!int",
    "!!float",
    "!!bool",
    "!!null",
    "!!binary",
    "!!map",
    "!!seq",
    "!!merge",
    "!!set",
    "!",
    "!local",
    "!<tag:yaml.org,2002:str>",
    "!<tag:example.com,2000:x>",
    "!!",
    "!a!b",
];

/// Text inserted by mutations.
const PIECES: &[&str] = &[
    ":", ": ", " #", "#", "-", "- ", "--", "'", "\"", "''", "|", "|-", "|+", "|2", ">", ">-", ">+1", "{", "}", "[",
    "]", ", ", ",", "&a ", "*a", "*a ", "!", "!!str ", "!!int ", "%", "@", "`", "\n", "\n\n", "\n ", " ", "  ", "\t",
    "?", "? ", "~", "0", "07", "1.", "e5", "_", "y", "no", ".", "\\", "\\n", "\u{e4}", "<<", "<<: ", "null", "=",
    "\n---\n", "\n...\n", "\r\n", "\r", "\u{feff}", "\u{85}",
];

/// Generates one file.
pub(crate) fn file(rng: &mut Rng) -> String {
    let mut writer = ManifestWriter { rng, out: String::new(), anchors: 0 };
    writer.file();
    let (rng, mut text) = (writer.rng, writer.out);
    if rng.u8(..10) < 3 {
        for _ in 0..rng.usize(1..4) {
            mutate(rng, &mut text);
        }
    }
    match rng.u8(..20) {
        0 | 1 => text = text.replace("\r\n", "\n").replace('\n', "\r\n"),
        // Not before several JSON values, of which kubectl then reads only the first.
        2 if !text.starts_with('{') => text.insert(0, '\u{feff}'),
        3 => drop(text.pop()),
        _ => {}
    }
    text
}

/// Mutates a text in one place.
fn mutate(rng: &mut Rng, text: &mut String) {
    let mut at = rng.usize(..=text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    if rng.u8(..3) == 0 && at < text.len() {
        text.remove(at);
    } else {
        text.insert_str(at, rng.choice(PIECES).unwrap());
    }
}

struct ManifestWriter<'r> {
    rng: &'r mut Rng,
    out: String,
    /// Number of anchors of this document so far.
    anchors: usize,
}

impl ManifestWriter<'_> {
    fn one_in(&mut self, many: u8) -> bool {
        self.rng.u8(..many) == 0
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.rng.usize(..from.len())]
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn file(&mut self) {
        if self.one_in(30) {
            self.put("%YAML 1.1\n---\n");
        }
        if self.one_in(8) {
            let separator = self.pick(&["", "", "\n", " "]);
            for number in 0..self.rng.usize(1..4) {
                self.json(number);
                self.put(separator);
            }
            self.put("\n");
            if self.one_in(2) {
                return;
            }
            self.put("---\n");
        }
        for number in 10..self.rng.usize(11..14) {
            self.anchors = 0;
            match self.rng.u8(..16) {
                0 => self.put("# nothing\n"),
                1 => {}
                2 => {
                    self.json(number);
                    self.put("\n");
                }
                3 => self.list(number),
                _ => self.manifest(number),
            }
            let end = self.pick(&["---\n", "---\n", "--- # c\n", "---   \n", "---\t\n", "\n---\n\n---\n"]);
            let end = if self.one_in(60) { "---#c\n" } else { end };
            self.put(end);
        }
        if self.one_in(40) {
            self.put("...\n");
        }
    }

    /// Writes an object as JSON, with variations that Go's JSON decoder accepts.
    fn json(&mut self, number: usize) {
        let odd = self.pick(&[
            "1",
            "-0",
            "1.0",
            "1e3",
            "1E+2",
            "-1.5e-3",
            "18446744073709551615",
            "1e21",
            "true",
            "null",
            "[]",
            "{}",
            "\"\\u0041\\n\\/\"",
            "\"\\ud83d\\ude00\"",
            "[1, [2, {\"a\": null}]]",
            "{\"a\": 1, \"a\": 2}",
            "\"\u{e9}\u{1f600}\"",
            "{\"\": 0}",
            "\"<&>\u{2028}\"",
        ]);
        let wide = self.one_in(2);
        let (newline, space) = if wide { ("\n", "  ") } else { ("", "") };
        let _ = write!(
            self.out,
            "{{\"apiVersion\":{space}\"v1\",{newline}\"kind\":{space}\"Probe\",{newline}\"metadata\": {{\"name\":\"j{number}\"}},{newline}\"spec\": {odd}}}"
        );
    }

    fn head(&mut self, number: usize, indent: &str, first: &str) {
        let kind = self.pick(&["Probe", "\"Probe\"", "'Probe'", "Probe # c", "!!str Probe"]);
        let _ = write!(
            self.out,
            "{first}apiVersion: v1\n{indent}kind: {kind}\n{indent}metadata:\n{indent}  name: n{number}\n"
        );
    }

    fn list(&mut self, number: usize) {
        if self.one_in(4) {
            self.put("apiVersion: v1\nkind: ProbeList\nitems:\n- metadata: {name: typed}\n");
            return;
        }
        self.put("apiVersion: v1\nkind: List\nitems:\n");
        if self.one_in(6) {
            return;
        }
        self.head(number, "  ", "- ");
        self.put("  spec:");
        self.value(2, 2);
        if self.one_in(2) {
            self.put("- apiVersion: v1\n  kind: ProbeList\n  items:\n  - {kind: Probe, apiVersion: v1, metadata: {name: inner}}\n");
            self.put("  - apiVersion: v1\n    kind: Other\n    metadata: {name: inner}\n    spec: [1]\n");
        }
    }

    fn manifest(&mut self, number: usize) {
        self.head(number, "", "");
        for _ in 0..self.rng.usize(1..5) {
            let key = self.key();
            self.put(&key);
            self.put(":");
            self.value(0, 4);
            if self.one_in(10) {
                let noise = self.pick(&["# c\n", "\n", "   # c\n", "  \n", "\t\n", " \t# c\n"]);
                self.put(noise);
            }
        }
    }

    fn key(&mut self) -> String {
        match self.rng.u8(..24) {
            0 => self.pick(&PLAIN.lines().collect::<Vec<_>>()).to_owned(),
            1 => format!("\"{}\"", self.pick(QUOTED)),
            2 => format!("'{}'", self.pick(&["a b", "it''s", "1", "a: b"])),
            3 => self
                .pick(&[
                    "<<",
                    "? a\n",
                    "? [a]\n",
                    "&k key",
                    "!!str 1",
                    "a b",
                    "[a]",
                    "{a: b}",
                    "*a1",
                    "\"<<\"",
                    "!!merge <<",
                ])
                .to_owned(),
            _ => format!("k{}", self.rng.u8(..60)),
        }
    }

    /// Writes the value of a key in a column, from after the colon to after the line break.
    fn value(&mut self, column: usize, depth: usize) {
        if self.one_in(12) {
            self.anchors += 1;
            let _ = write!(self.out, " &a{}", self.anchors);
        }
        if self.one_in(25) {
            let tag = self.pick(TAGS);
            let _ = write!(self.out, " {tag}");
        }
        let comment = if self.one_in(15) { " # c" } else { "" };
        match self.rng.u8(..if depth == 0 { 12 } else { 20 }) {
            0 => {
                let (quoted, gap) = (self.quoted(column), self.gap());
                let _ = writeln!(self.out, "{gap}{quoted}{comment}");
            }
            1 => self.block_text(column),
            2 => {
                let flow = self.flow(depth.min(2), column);
                let _ = writeln!(self.out, " {flow}{comment}");
            }
            3 if self.anchors > 0 => {
                let anchor = self.rng.usize(1..=self.anchors);
                let _ = writeln!(self.out, " *a{anchor}{comment}");
            }
            4 => self.folded_plain(column),
            5 => {
                let _ = writeln!(self.out, "{comment}");
            }
            6..=11 => {
                let (plain, gap) = (self.plain(), self.gap());
                let _ = writeln!(self.out, "{gap}{plain}{comment}");
            }
            12..=16 => self.mapping(column, depth, comment),
            _ => self.sequence(column, depth, comment),
        }
    }

    fn gap(&mut self) -> &'static str {
        self.pick(&[" ", " ", " ", " ", " ", "  ", "\t", " \t "])
    }

    fn mapping(&mut self, column: usize, depth: usize, comment: &str) {
        let _ = writeln!(self.out, "{comment}");
        let column = column + self.rng.usize(1..5);
        for _ in 0..self.rng.usize(1..4) {
            let _ = write!(self.out, "{:column$}", "");
            let key = self.key();
            self.put(&key);
            let gap = self.pick(&["", "", "", "", "", " "]);
            let _ = write!(self.out, "{gap}:");
            self.value(column, depth.saturating_sub(1));
        }
    }

    fn sequence(&mut self, column: usize, depth: usize, comment: &str) {
        let _ = writeln!(self.out, "{comment}");
        let column = column + self.rng.usize(0..4);
        for _ in 0..self.rng.usize(1..4) {
            let _ = write!(self.out, "{:column$}-", "");
            if self.one_in(3) {
                // A mapping that starts after the dash.
                let key = self.key();
                let _ = write!(self.out, " {key}:");
                self.value(column + 2, depth.saturating_sub(1));
                let _ = writeln!(self.out, "{:1$}last: 1", "", column + 2);
            } else {
                self.value(column + 1, depth.saturating_sub(1));
            }
        }
    }

    fn plain(&mut self) -> String {
        match self.rng.u8(..12) {
            0 => format!("{}{}", self.rng.u64(..), self.pick(&["", "e5", ".5", "_0", "m"])),
            1 => format!("{}{}e{}", self.pick(&["", "-", "+"]), self.rng.u32(..), self.rng.u32(..400)),
            2 => (0..self.rng.usize(1..9))
                .map(|_| char::from(*self.rng.choice(b"0123456789eE+-_.xob").unwrap()))
                .collect(),
            // Longer than kubectl's buffer, but short enough that kaudit does not cut the details of a result, which
            // are compared.
            3 if self.one_in(20) => "long ".repeat(self.rng.usize(300..1_100)) + "end",
            _ => self.pick(&PLAIN.lines().collect::<Vec<_>>()).to_owned(),
        }
    }

    /// Returns a quoted scalar, sometimes over several lines.
    fn quoted(&mut self, column: usize) -> String {
        let between = |writer: &mut Self| {
            if !writer.one_in(4) {
                return writer.pick(&["", " "]).to_owned();
            }
            let indent =
                if writer.one_in(4) { writer.rng.usize(..=column + 1) } else { column + writer.rng.usize(1..4) };
            let before = writer.pick(&["", "", " ", "\t", "\n", " \n  \n"]);
            let tab = writer.pick(&["", "", "", "\t"]);
            format!("{before}\n{}{tab}", " ".repeat(indent))
        };
        let mut text = String::new();
        if self.one_in(2) {
            for _ in 0..self.rng.usize(1..4) {
                let part = self.pick(QUOTED).to_owned();
                let gap = between(self);
                let fold = if gap.contains('\n') && self.one_in(4) { "\\" } else { "" };
                let _ = write!(text, "{part}{fold}{gap}");
            }
            return format!("\"{text}\"");
        }
        for _ in 0..self.rng.usize(1..4) {
            let part = self.pick(&["a", "it''s", "", " x", "\\n", "\"", "# c", "a: b", "é"]).to_owned();
            let gap = between(self);
            let _ = write!(text, "{part}{gap}");
        }
        format!("'{text}'")
    }

    /// Writes a plain scalar over several lines.
    fn folded_plain(&mut self, column: usize) {
        let first = self.plain();
        let _ = writeln!(self.out, " {first}");
        for _ in 0..self.rng.usize(1..3) {
            let indent = column + self.rng.usize(1..4);
            let (blank, plain) = (self.pick(&["", "", "", "\n", "  \n"]), self.plain());
            let _ = writeln!(self.out, "{blank}{:indent$}{plain}", "");
        }
    }

    /// Writes a block scalar after `|` or `>`.
    fn block_text(&mut self, column: usize) {
        let indent = self.rng.usize(1..4);
        let style = self.pick(&["|", "|", ">"]);
        let indicator = if self.one_in(4) { indent.to_string() } else { String::new() };
        let chomping = self.pick(&["", "", "-", "+"]);
        let header = if self.one_in(2) { indicator + chomping } else { chomping.to_owned() + &indicator };
        let comment = self.pick(&["", "", "", " # c", " "]);
        let _ = writeln!(self.out, " {style}{header}{comment}");
        for _ in 0..self.rng.usize(0..6) {
            let line = self.pick(&[
                "a", "b c", "  more", " x", "", " ", "    ", "# c", "- a", "k: v", "\ttab", "end  ", "'", "\\n", "é",
                "%x", "\t",
            ]);
            let own = if line.is_empty() { 0 } else { column + indent };
            let _ = writeln!(self.out, "{:own$}{line}", "");
        }
    }

    /// Returns a flow collection, sometimes over several lines.
    fn flow(&mut self, depth: usize, column: usize) -> String {
        let gap = |writer: &mut Self| {
            let indent = " ".repeat(column + 2);
            match writer.rng.u8(..12) {
                0 => format!("\n{indent}"),
                1 => format!(" # c\n{indent}"),
                2 => "\t".to_owned(),
                3..=6 => " ".to_owned(),
                _ => String::new(),
            }
        };
        let node = |writer: &mut Self| match writer.rng.u8(..if depth == 0 { 6 } else { 8 }) {
            0 => writer.quoted(column),
            1 if writer.anchors > 0 => format!("*a{} ", writer.rng.usize(1..=writer.anchors)),
            2 => String::new(),
            1 | 3..=5 => writer.plain(),
            _ => writer.flow(depth - 1, column),
        };
        let is_mapping = self.one_in(2);
        let mut text = gap(self);
        for _ in 0..self.rng.usize(..4) {
            if is_mapping || self.one_in(6) {
                let key = if self.one_in(4) { node(self) } else { format!("f{}", self.rng.u8(..40)) };
                let colon = self.pick(&[": ", ": ", ": ", ":", " : ", ":\n       ", "", ":\t"]);
                let value = node(self);
                let _ = write!(text, "{key}{colon}{value}");
            } else {
                text += &node(self);
            }
            text += &gap(self);
            text += self.pick(&[",", ",", ",", ", ", " ,"]);
            text += &gap(self);
        }
        if self.one_in(2) {
            text = text.trim_end_matches([',', ' ']).to_owned();
        }
        if is_mapping { format!("{{{text}}}") } else { format!("[{text}]") }
    }
}
