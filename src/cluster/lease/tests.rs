use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use kaudit_test_support::settings::seed;
use kube::core::Status;
use tokio::time::advance;

use super::*;

const TIMES: Times = Times { duration: Duration::from_secs(15) };

/// A server with one Lease, and the connections to it.
#[derive(Default)]
struct LeaseServer {
    lease: Option<Lease>,
    version: u64,
    connections: BTreeMap<String, LeaseConnection>,
    /// Leases of other shard counts.
    rivals: Vec<Lease>,
}

/// The delays and failures of a connection to the server.
#[derive(Debug, Clone, Copy, Default)]
struct LeaseConnection {
    /// Time until a request arrives.
    there: Duration,
    /// Time until its response is back.
    back: Duration,
    /// Whether requests are refused.
    refuses: bool,
}

/// One candidate's connection to a server.
#[derive(Clone)]
struct Remote {
    server: Arc<Mutex<LeaseServer>>,
    name: String,
}

const CUT_OFF: Duration = Duration::from_hours(1_000);

fn status(code: u16) -> kube::Error {
    kube::Error::Api(Box::new(Status { code, message: format!("code {code}"), ..Status::default() }))
}

impl Remote {
    async fn request<T: Send + 'static>(
        &self,
        answer: impl FnOnce(&mut LeaseServer) -> kube::Result<T> + Send + 'static,
    ) -> kube::Result<T> {
        let connection = self.server.lock().unwrap().connections.get(&self.name).copied().unwrap_or_default();
        let server = self.server.clone();
        // A sent request arrives, whether or not its response is awaited.
        let response = tokio::spawn(async move {
            sleep(connection.there).await;
            if connection.refuses { Err(status(500)) } else { answer(&mut server.lock().unwrap()) }
        });
        let answer = response.await.unwrap();
        sleep(connection.back).await;
        answer
    }
}

impl LeaseServer {
    fn write(&mut self, lease: &Lease) -> Lease {
        let mut lease = lease.clone();
        self.version += 1;
        lease.metadata.name = Some("l".into());
        lease.metadata.resource_version = Some(self.version.to_string());
        self.lease.insert(lease).clone()
    }

    fn spec(&self) -> LeaseSpec {
        self.lease.clone().unwrap().spec.unwrap()
    }
}

impl LeaseStore for Remote {
    async fn get(&self) -> kube::Result<Option<Lease>> {
        self.request(|server| Ok(server.lease.clone())).await
    }

    async fn create(&self, lease: &Lease) -> kube::Result<Lease> {
        let lease = lease.clone();
        self.request(move |server| if server.lease.is_some() { Err(status(409)) } else { Ok(server.write(&lease)) })
            .await
    }

    async fn replace(&self, lease: &Lease) -> kube::Result<Lease> {
        let lease = lease.clone();
        let replace = move |server: &mut LeaseServer| match &server.lease {
            None => Err(status(404)),
            Some(known) if known.metadata.resource_version != lease.metadata.resource_version => Err(status(409)),
            Some(_) => Ok(server.write(&lease)),
        };
        self.request(replace).await
    }

    async fn rivals(&self) -> kube::Result<Vec<Lease>> {
        self.request(|server| Ok(server.rivals.clone())).await
    }
}

#[derive(Clone, Default)]
struct World {
    server: Arc<Mutex<LeaseServer>>,
}

impl World {
    fn candidate(&self, name: &str) -> Candidate<Remote> {
        let store = Remote { server: self.server.clone(), name: name.to_owned() };
        Candidate::new(store, name.to_owned(), TIMES)
    }

    fn connect(&self, name: &str, connection: LeaseConnection) {
        self.server.lock().unwrap().connections.insert(name.to_owned(), connection);
    }

    fn cut_off(&self, name: &str) {
        self.connect(name, LeaseConnection { there: CUT_OFF, ..LeaseConnection::default() });
    }

    fn spec(&self) -> LeaseSpec {
        self.server.lock().unwrap().spec()
    }
}

/// Seconds since an instant, rounded down.
fn since(start: Instant) -> u64 {
    start.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn the_first_leads_and_the_second_waits_for_it_to_end() {
    let world = World::default();
    let (mut first, mut second) = (world.candidate("first"), world.candidate("second"));
    first.acquire().await;
    assert!(first.fence().is_open());
    assert_eq!((world.spec().holder_identity.as_deref(), world.spec().lease_transitions), (Some("first"), Some(0)));
    let renewing = timeout(Duration::from_mins(2), first.keep());
    tokio::select! {
        kept = renewing => assert!(kept.is_err(), "it is kept for ever"),
        () = second.acquire() => panic!("two lead"),
    }
    // Killed: it no longer renews. The follower has seen the last renewal at most a second after it was made.
    let killed = Instant::now();
    second.acquire().await;
    assert!(killed.elapsed() < TIMES.duration + Duration::from_secs(2), "{:?}", killed.elapsed());
    assert!(!first.fence().is_open());
    let spec = world.spec();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("second"), Some(1)));
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once() {
    let world = World::default();
    let (mut first, mut second) = (world.candidate("first"), world.candidate("second"));
    first.acquire().await;
    let start = Instant::now();
    let releases = async {
        timeout(Duration::from_secs(20), first.keep()).await.unwrap_err();
        first.release().await;
    };
    tokio::join!(releases, second.acquire());
    assert!(since(start) <= 21, "{:?}", start.elapsed());
    assert_eq!(world.spec().holder_identity.as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_leader_stops_before_another_starts() {
    let world = World::default();
    let (mut first, mut second) = (world.candidate("first"), world.candidate("second"));
    first.acquire().await;
    let fence = first.fence();
    let start = Instant::now();
    world.cut_off("first");
    let loses = async {
        first.keep().await;
        start.elapsed()
    };
    let takes = async {
        second.acquire().await;
        assert!(!fence.is_open());
        start.elapsed()
    };
    let times = tokio::join!(loses, takes);
    assert_eq!(times, (Duration::from_secs(10), Duration::from_secs(15)));
    // When it is connected again, it follows.
    world.connect("first", LeaseConnection::default());
    tokio::select! {
        () = first.acquire() => panic!("two lead"),
        () = second.keep() => panic!("it is lost"),
        () = sleep(Duration::from_mins(5)) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_survives_errors_and_unanswered_renewals() {
    let world = World::default();
    let mut leader = world.candidate("leader");
    leader.acquire().await;
    let fence = leader.fence();
    let troubles = async {
        for connection in [
            LeaseConnection { refuses: true, ..LeaseConnection::default() },
            // The renewal succeeds, but its response is lost: the resourceVersion is not the known one.
            LeaseConnection { back: CUT_OFF, ..LeaseConnection::default() },
            LeaseConnection { there: CUT_OFF, ..LeaseConnection::default() },
        ] {
            world.connect("leader", connection);
            sleep(Duration::from_secs(6)).await;
            world.connect("leader", LeaseConnection::default());
            sleep(Duration::from_secs(10)).await;
            assert!(fence.is_open(), "{connection:?}");
        }
        // A user edits it.
        let mut lease = world.server.lock().unwrap().lease.clone().unwrap();
        lease.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        world.server.lock().unwrap().write(&lease);
        sleep(Duration::from_secs(20)).await;
        assert!(fence.is_open());
    };
    tokio::select! {
        () = leader.keep() => panic!("lost"),
        () = troubles => {}
    }
    assert_eq!(world.server.lock().unwrap().lease.clone().unwrap().metadata.labels.unwrap()["a"], "b");
    // A user deletes it: this candidate loses it until it creates another.
    world.server.lock().unwrap().lease = None;
    leader.keep().await;
    assert!(!fence.is_open());
    leader.acquire().await;
    assert!(fence.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_frozen_leader_finds_its_fence_shut() {
    let world = World::default();
    let (mut first, mut second) = (world.candidate("first"), world.candidate("second"));
    first.acquire().await;
    let fence = first.fence();
    // The first does not run while time passes.
    timeout(Duration::from_secs(15), second.acquire()).await.unwrap_err();
    advance(Duration::from_secs(1)).await;
    second.acquire().await;
    assert!(!fence.is_open(), "before anything of it has run again");
    first.keep().await;
    tokio::select! {
        () = first.acquire() => panic!("two lead"),
        () = second.keep() => panic!("it is lost"),
        () = sleep(Duration::from_mins(1)) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_longer_duration_of_the_holder_is_respected() {
    let world = World::default();
    let mut slow = world.candidate("slow");
    slow.times = Times::lasting(Duration::from_mins(1));
    slow.acquire().await;
    let start = Instant::now();
    world.candidate("quick").acquire().await;
    assert_eq!(start.elapsed(), Duration::from_mins(1));
}

#[tokio::test(start_paused = true)]
async fn no_candidate_leads_while_shards_of_another_count_record() {
    let world = World::default();
    let rival = |holder: &str, renewed: i64| {
        let spec = LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            ..LeaseSpec::default()
        };
        let mut lease = Lease { spec: Some(spec), ..Lease::default() };
        lease.metadata.name = Some("l-1".to_owned());
        lease
    };
    let renews = async {
        for second in 0..20 {
            world.server.lock().unwrap().rivals = vec![rival("other", second)];
            sleep(Duration::from_secs(2)).await;
        }
    };
    let (start, mut candidate) = (Instant::now(), world.candidate("one"));
    let acquires = async {
        candidate.acquire().await;
        since(start)
    };
    let (seconds, ()) = tokio::join!(acquires, renews);
    assert_eq!(seconds, 38 + 15, "it was renewed 38 s after the start for the last time");
    candidate.release().await;
    // Released.
    world.server.lock().unwrap().rivals = vec![rival("", 50)];
    timeout(Duration::from_millis(10), candidate.acquire()).await.unwrap();
    candidate.release().await;
    // A rival that appears while this candidate claims its Lease.
    let slow = LeaseConnection { back: Duration::from_millis(500), ..LeaseConnection::default() };
    world.connect("one", slow);
    world.server.lock().unwrap().rivals.clear();
    let comes = async {
        while holder(Some(&world.spec())).is_none() {
            sleep(Duration::from_millis(10)).await;
        }
        world.server.lock().unwrap().rivals = vec![rival("other", 60)];
    };
    let acquires = timeout(Duration::from_secs(5), candidate.acquire());
    let (done, ()) = tokio::join!(acquires, comes);
    assert!(done.is_err());
    assert_eq!(holder(Some(&world.spec())), None, "it was given back");
}

/// Candidates that are randomly disconnected, slowed down and reconnected.
#[tokio::test(start_paused = true)]
async fn at_most_one_leads_whatever_the_network_does_and_one_does_once_it_recovers() {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let mut random = fastrand::Rng::with_seed(seed());
    let world = World::default();
    let mut fences = Vec::new();
    let mut tasks = tokio::task::JoinSet::new();
    for name in NAMES {
        let mut candidate = world.candidate(name);
        fences.push(candidate.fence());
        let mut random = random.fork();
        tasks.spawn(async move {
            loop {
                candidate.acquire().await;
                // From time to time a candidate stops voluntarily.
                let patience = Duration::from_secs(random.u64(20..200));
                if timeout(patience, candidate.keep()).await.is_err() {
                    candidate.release().await;
                }
            }
        });
    }
    let (mut led, mut leaders) = (0_u32, std::collections::BTreeSet::new());
    for _ in 0..400 {
        let name = NAMES[random.usize(..NAMES.len())];
        let delay = |random: &mut fastrand::Rng| match random.u8(..6) {
            0 => CUT_OFF,
            1 => Duration::from_millis(random.u64(..20_000)),
            _ => Duration::from_millis(random.u64(..200)),
        };
        world.connect(
            name,
            LeaseConnection { there: delay(&mut random), back: delay(&mut random), refuses: random.u8(..8) == 0 },
        );
        let steps = random.u32(1..400);
        for _ in 0..steps {
            sleep(Duration::from_millis(50)).await;
            let open: Vec<_> = NAMES.iter().zip(&fences).filter(|(_, fence)| fence.is_open()).collect();
            assert!(open.len() < 2, "{open:?}");
            led += u32::from(!open.is_empty());
            leaders.extend(open.first().map(|(name, _)| **name));
        }
    }
    assert!(led > 1_000 && leaders.len() == 3, "{led} {leaders:?}");
    for name in NAMES {
        world.connect(name, LeaseConnection::default());
    }
    // A delayed request, and the longest lease.
    let start = Instant::now();
    while !fences.iter().any(Fence::is_open) {
        sleep(Duration::from_millis(50)).await;
        assert!(start.elapsed() < Duration::from_secs(25));
    }
}

mod fenced {
    use std::convert::Infallible;

    use tower::{Layer, Service, ServiceExt, service_fn};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_pass_while_it_is_open_and_are_dropped_when_it_shuts() {
        let until = watch::channel(Moment::now() + Duration::from_secs(10)).0;
        let fence = Fence::new(until.subscribe());
        let done = Arc::new(Mutex::new(Vec::new()));
        let log = done.clone();
        let service = service_fn(move |seconds: u64| {
            let log = log.clone();
            async move {
                sleep(Duration::from_secs(seconds)).await;
                log.lock().unwrap().push(seconds);
                Ok::<_, Infallible>(seconds)
            }
        });
        let mut service = fence.layer(service);
        assert_eq!(service.ready().await.unwrap().call(3).await.unwrap(), 3);
        // A renewal extends it.
        let slow = service.call(20);
        until.send_replace(Moment::now() + Duration::from_secs(30));
        assert_eq!(slow.await.unwrap(), 20);
        let start = Instant::now();
        assert!(service.call(11).await.is_err());
        assert_eq!(since(start), 10);
        assert!(service.call(0).await.is_err());
        assert_eq!(*done.lock().unwrap(), [3, 20]);
        // It stays open until then, even if its candidate is dropped.
        until.send_replace(Moment::now() + Duration::from_secs(30));
        let slow = service.call(20);
        drop(until);
        assert_eq!(slow.await.unwrap(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_was_suspended_wakes_up_with_the_fence_shut() {
        let end = Moment::now() + Duration::from_secs(10);
        assert!(Fence::new(watch::channel(end).1).is_open());
        // Its timers still have ten seconds to go.
        let slept = Moment { since_boot: end.since_boot.saturating_sub(Duration::from_secs(11)), ..end };
        assert!(!Fence::new(watch::channel(slept).1).is_open());
    }
}
