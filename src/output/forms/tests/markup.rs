//! XML, Markdown and HTML are well-formed, within their limits, and free of markup from messages.

use std::collections::BTreeSet;

use data_encoding::BASE64;
use proptest::prelude::*;
use pulldown_cmark::{Event, LinkType, Options, Parser, Tag};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus};
use quick_xml::{
    Reader,
    events::{BytesStart, Event as Xml, attributes::Attribute},
};
use sha2::{Digest as _, Sha256};

use super::{cluster_with_gaps, described, doubles, empty, hostile, large, shown, shown_for, with_text};
use crate::{
    audit::result::AuditResult,
    output::{Format, Place},
};

/// Whether XML 1.0 allows a character (its production `Char`).
fn is_legal(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// An element with its attributes.
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
}

impl Element {
    fn new(element: &BytesStart<'_>) -> Self {
        let name = String::from_utf8(element.name().as_ref().to_vec()).unwrap();
        Self { name, attributes: attributes(element) }
    }
}

/// The void elements of HTML.
const VOID: [&[u8]; 4] = [b"meta", b"link", b"br", b"input"];

/// Parses an XML document, or an HTML document that closes all its non-void elements, to its end; returns its elements.
fn elements(what: &str, text: &str) -> Vec<Element> {
    let is_html = text.starts_with("<!DOCTYPE html>");
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = !is_html;
    let mut open: Vec<Vec<u8>> = Vec::new();
    let mut found = Vec::new();
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{what}: {error}")) {
            Xml::Start(element) => {
                if !(is_html && VOID.contains(&element.name().as_ref())) {
                    open.push(element.name().as_ref().to_vec());
                }
                found.push(Element::new(&element));
            }
            Xml::Empty(element) => found.push(Element::new(&element)),
            Xml::End(element) => assert_eq!(open.pop().unwrap(), element.name().as_ref(), "{what}"),
            Xml::GeneralRef(reference) => {
                let c = reference.resolve_char_ref().unwrap();
                assert!(c.is_none_or(is_legal), "{what}: {c:?}");
            }
            Xml::Eof => break,
            _ => {}
        }
    }
    assert!(open.is_empty(), "{what}: not closed: {open:?}");
    assert!(is_html || text.chars().all(is_legal), "{what}");
    found
}

fn attributes(element: &BytesStart<'_>) -> Vec<(String, String)> {
    let attribute = |attribute: Attribute<'_>| {
        let key = String::from_utf8(attribute.key.as_ref().to_vec()).unwrap();
        let value = String::from_utf8(attribute.value.to_vec()).unwrap();
        (key, value.replace("&amp;", "&"))
    };
    element.html_attributes().map(|found| attribute(found.unwrap())).collect()
}

fn samples() -> Vec<(String, AuditResult)> {
    let samples = [
        ("described", described()),
        ("gaps", cluster_with_gaps()),
        ("clean", empty()),
        ("hostile", hostile()),
        ("large", large(1_000)),
        ("nothing", with_text("")),
        ("illegal", with_text("a\u{fffe}b\u{ffff}\u{0}\u{1b}[31mc")),
        ("markup", with_text("</td><script>alert(1)</script>]]><!--\"'&lt;")),
    ];
    samples.into_iter().map(|(name, result)| (name.to_owned(), result)).collect()
}

#[test]
fn test_cases_have_unique_names() {
    for (what, result) in samples() {
        let text = shown(Format::Junit, &result);
        elements(&what, &text);
        let report = Report::deserialize_from_str(&text).unwrap();
        let cases: Vec<&TestCase> = report.test_suites.iter().flat_map(|suite| &suite.test_cases).collect();
        let name = |case: &&TestCase| (case.classname.clone(), case.name.clone());
        assert_eq!(doubles(cases.iter().map(name)), [], "{what}");
        assert!(!cases.is_empty(), "{what}");
        let of = |outcome: &str| {
            let found = result.results.iter().filter(|entry| entry.result.word() == outcome);
            found.map(|entry| (&entry.resource, &entry.policy, &entry.rule)).collect::<BTreeSet<_>>()
        };
        let statuses = |kind| {
            let is = |case: &&&TestCase| matches!(&case.status, TestCaseStatus::NonSuccess { kind: found, .. } if *found == kind);
            cases.iter().filter(is).count()
        };
        let failures = of("fail").union(&of("warn")).count();
        assert_eq!(statuses(NonSuccessKind::Failure), failures, "{what}");
        let errors = &(&of("error") - &of("fail")) - &of("warn");
        assert!(statuses(NonSuccessKind::Error) >= errors.len(), "{what}");
        if !result.complete {
            assert!(statuses(NonSuccessKind::Error) > 0, "{what}");
        }
        assert!(!text.lines().any(|line| line.trim_start().starts_with("::")), "{what}: a command of a pipeline");
    }
}

/// Parses Markdown as GitHub and GitLab do, and checks that everything from others is plain text.
fn assert_inert(what: &str, markdown: &str) -> String {
    let mut text = String::new();
    let mut code = false;
    let comment = "<!-- kaudit -->\n";
    for event in
        Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES)
    {
        match event {
            Event::InlineHtml(html) => match &*html {
                "<code>" => code = true,
                "</code>" => code = false,
                "<br>" => text.push('\n'),
                "<wbr>" => {}
                other => panic!("{what}: {other}"),
            },
            Event::Html(html) => assert_eq!(&*html, comment, "{what}"),
            Event::Text(part) => {
                // Inside code these are not turned into links.
                assert!(code || !part.contains(['@', '#']), "{what}: {part}");
                text.push_str(&part);
            }
            Event::Start(Tag::Link { link_type, dest_url, .. }) => {
                assert!(link_type == LinkType::Inline && dest_url.starts_with("https://"), "{what}: {dest_url}");
            }
            Event::Start(
                Tag::Emphasis
                | Tag::Strong
                | Tag::Strikethrough
                | Tag::Image { .. }
                | Tag::CodeBlock(_)
                | Tag::BlockQuote(_),
            )
            | Event::Code(_)
            | Event::FootnoteReference(_)
            | Event::Rule => panic!("{what}: {event:?}"),
            _ => {}
        }
    }
    text
}

#[test]
fn markdown_has_counts_first_and_fits() {
    for place in [Place::Summary, Place::Comment] {
        for (what, result) in samples() {
            let markdown = shown_for(Format::Markdown, &result, place);
            assert!(markdown.len() <= place.bytes(), "{what}");
            assert_inert(&what, &markdown);
        }
        let markdown = shown_for(Format::Markdown, &large(6_000), place);
        assert!(markdown.len() <= place.bytes() && markdown.len() > place.bytes() - 1_024, "{}", markdown.len());
        let rows = markdown.lines().filter(|line| line.starts_with("| ")).count() - 1;
        let last = format!("{} of 6000 results were left out, the least severe first", 6_000 - rows);
        assert!(markdown.lines().last().unwrap().starts_with(&last), "{last}");
        let title = markdown.lines().find(|line| line.starts_with("###")).unwrap();
        assert_eq!(title, "### kaudit: 2400 fail, 1200 warn, 1200 error");
        assert!(markdown.lines().find(|line| line.starts_with("| fail")).unwrap().starts_with("| fail, critical |"));
    }
}

#[test]
fn messages_are_not_interpreted_as_markdown() {
    let message = "@team #1 a@example.com https://example.com www.example.com [a](b) ![a](b) `c` **d** ~~e~~ _f_ <b> | x\\| :g: $h$ [^1] \\";
    let text = assert_inert("message", &shown(Format::Markdown, &with_text(message)));
    assert!(text.contains(message), "{text}");
    let links =
        |markdown: &str| Parser::new(markdown).filter(|event| matches!(event, Event::Start(Tag::Link { .. }))).count();
    assert_eq!(links(&shown(Format::Markdown, &with_text(message))), 0);
    assert_eq!(
        links(&shown(Format::Markdown, &described())),
        3,
        "the two results of the rule that has a page, and its exception"
    );
}

#[test]
fn the_page_file_loads_nothing_and_runs_no_foreign_script() {
    for (what, result) in samples() {
        let text = shown(Format::Html, &result);
        let elements = elements(&what, &text);
        let inline = |name: &str| {
            let hash = |text: &str| format!("'sha256-{}'", BASE64.encode(&Sha256::digest(text)));
            let (start, end) = (format!("<{name}>"), format!("</{name}>"));
            let from = text.find(&start).unwrap() + start.len();
            hash(&text[from..from + text[from..].find(&end).unwrap()])
        };
        let policy = elements.iter().find(|one| one.name == "meta" && one.attributes.len() == 2).unwrap();
        let policy = &policy.attributes[1].1;
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        assert!(policy.contains(&format!("style-src {}", inline("style"))), "{policy}");
        assert!(policy.contains(&format!("script-src {}", inline("script"))), "{policy}");
        let names: Vec<&str> = elements.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names.iter().filter(|name| **name == "script").count(), 1, "{what}");
        assert!(!names.iter().any(|name| ["img", "iframe", "object", "base"].contains(name)), "{what}");
        for (key, value) in elements.iter().flat_map(|one| &one.attributes) {
            assert!(!["src", "style", "action"].contains(&key.as_str()) && !key.starts_with("on"), "{what}: {key}");
            let leads = ["https://", "#", "data:,"].iter().any(|start| value.starts_with(start));
            assert!(key != "href" || leads, "{what}: {value}");
        }
        assert!(!text.lines().any(|line| line.trim_start().starts_with("::")), "{what}: a command of a pipeline");
        let is_result = |key: &str| key == "data-result";
        let shown = elements.iter().flat_map(|one| &one.attributes).filter(|(key, _)| is_result(key)).count();
        assert_eq!(shown, result.results.len(), "{what}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn texts_are_not_interpreted_as_markup(text in prop_oneof![any::<String>(), "[ -~\n\t]{0,30}", "[@#<>&|`*_~\\[\\]()!:$\\\\ a\n]{0,30}"]) {
        let result = with_text(&text);
        let what = format!("{text:?}");
        for place in [Place::Summary, Place::Comment] {
            assert_inert(&what, &shown_for(Format::Markdown, &result, place));
        }
        for format in [Format::Junit, Format::Html] {
            elements(&what, &shown(format, &result));
        }
        Report::deserialize_from_str(&shown(Format::Junit, &result)).unwrap();
    }
}
