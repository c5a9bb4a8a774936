//! The simulated server against the real one: both get the same random requests, and their answers are compared.

#![expect(clippy::unwrap_used, reason = "a test says what failed")]

#[path = "real/content.rs"]
mod content;
#[path = "real/generator.rs"]
mod generator;
#[path = "real/normal.rs"]
mod normal;
#[path = "real/sides.rs"]
mod sides;

use futures::{StreamExt as _, stream};
use kaudit_controlplane::{ControlPlane, Options, require};

use self::{generator::Generator, normal::Captures, sides::Sides};

/// How many sequences run at once, each in namespaces of its own.
const AT_ONCE: usize = 8;
/// How many requests a sequence has.
const REQUESTS: usize = 150;

/// Returns a number from the environment.
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[tokio::test]
async fn both_servers_answer_random_requests_alike() {
    if !require() {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let sides = Sides::new(&plane);
    sides.prepare().await;
    let (first, sequences) = (number("KAUDIT_TEST_SEED", 1), number("KAUDIT_TEST_SEQUENCES", 4));
    let compared = stream::iter(first..first + sequences).map(|seed| compare(&sides, seed)).buffer_unordered(AT_ONCE);
    let differences: Vec<String> = compared.filter_map(|compared| async { compared.err() }).collect().await;
    plane.stop().await.unwrap();
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

/// Sends a sequence of requests to both servers; fails with the first difference of their answers.
async fn compare(sides: &Sides, seed: u64) -> Result<(), String> {
    let (mut generator, mut captures) = (Generator::new(seed), Captures::default());
    for number in 0..REQUESTS {
        let request = generator.next(&captures);
        let [real, simulated] = sides.ask(&request, &captures).await;
        captures.take(&request.path, &real, &simulated);
        let (expected, found) = (captures.normal(0, &real), captures.normal(1, &simulated));
        if expected != found {
            let differences = expected.differences(&found).join("\n  ");
            let text = format!("seed {seed}, request {number}: {request:?}\n  {differences}");
            // Behind the first, the states of the servers differ.
            return Err(text);
        }
    }
    Ok(())
}
