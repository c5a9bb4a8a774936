//! The document around each view, the sign-in form, and the page for users without access.

use maud::{DOCTYPE, Markup, html};

use super::query::PageQuery;
use crate::output::safe::shown_line;

/// The style of the page.
pub const STYLE: &str = include_str!("style.css");

/// Returns the sign-in form for a view; `problem` is why the previous attempt failed.
pub fn sign_in_page(query: &PageQuery, problem: Option<&str>) -> String {
    let content = html! {
        h2 { "Sign in" }
        @if let Some(problem) = problem { p.fail role="alert" { (shown_line(problem)) } }
        form method="post" action=(format!("login{}", query.url())) {
            label { "Token " input type="password" name="token" required autocomplete="off" autofocus; }
            button { "Sign in" }
        }
        p.note { "A token of the cluster, for example the output of " code { "kubectl create token" } ". It is kept in a cookie of this browser for at most 12 hours." }
    };
    document("sign in", GREY, None, &content).into_string()
}

/// Returns the page for a user who has no access.
pub fn refusal(why: &str) -> String {
    let content = html! {
        h2 { "You do not have access" }
        p.fail role="alert" { (shown_line(why)) }
        (sign_out())
    };
    document("not allowed", GREY, None, &content).into_string()
}

/// The colour of the icon where nothing is known about the audit.
const GREY: &str = "8c959f";

/// Returns a document with this title and the colour of its icon; without a header, it does not update itself.
pub(super) fn document(title: &str, colour: &str, header: Option<&Markup>, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · kaudit" }
                link rel="icon" href=(icon(colour));
                link rel="stylesheet" href="style.css";
                @if header.is_some() { script src="script.js" defer {} }
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header {
                    h1 { a href="./" { "kaudit" } }
                    @if let Some(header) = header { (header) }
                }
                main #main tabindex="-1" { (content) }
            }
        }
    }
}

/// Returns an icon: a disc of this colour.
pub(super) fn icon(colour: &str) -> String {
    let disc =
        "%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Ccircle cx='8' cy='8' r='7' fill='%23";
    format!("data:image/svg+xml,{disc}{colour}'/%3E%3C/svg%3E")
}

pub(super) fn sign_out() -> Markup {
    html! { form.bare method="post" action="logout" { button { "Sign out" } } }
}
