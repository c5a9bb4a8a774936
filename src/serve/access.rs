//! Access control of the page. The API server authenticates tokens (`TokenReview`) and authorizes reads
//! (`SubjectAccessReview`), as it does for aggregated API servers.
//!
//! Users who may get the `Audit` may see the page. Like reports, the page names objects and contains the messages of
//! violations, so readers see the results of the namespaces in which they may list reports.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, Resource, api::PostParams, core::ClusterResourceScope};
use quick_cache::sync::Cache;
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

use crate::{
    cluster::{error::describe, identity::OWN_GROUP},
    output::page::Places,
    record::{events::bucket::Bucket, reports},
};

/// How long a review of the API server is cached; changes of permissions take effect within this time.
const CACHED: Duration = Duration::from_mins(1);
/// Maximum number of cached readers.
const READERS: usize = 256;
/// Maximum number of cached namespaces of all readers.
const NAMESPACES: usize = 16_384;
/// Maximum number of token reviews: the burst, and then the rate per second.
const REVIEWS: f64 = 10.0;
/// The audience of tokens restricted to kaudit: `kubectl create token NAME --audience kaudit`.
const AUDIENCE: &str = "kaudit";
/// Number of namespaces reviewed concurrently.
const AT_ONCE: usize = 8;
/// Maximum length of a token, longer than any that an API server accepts; browsers keep cookies of up to 4,096 bytes.
pub(super) const TOKEN_BYTES: usize = 3_000;

/// Settings of access control.
#[derive(Clone)]
pub struct AccessSettings {
    /// Client for token and access reviews, which need the rights of `system:auth-delegator`.
    pub client: Client,
    /// Namespace and name of the `Audit`.
    pub audit: (String, String),
    /// The report API; the right to list its reports is required to see results.
    pub reports: reports::Api,
}

/// Decides by reviews of the API server who may see the page, and caches the reviews for [`CACHED`].
pub(super) struct PageAccess {
    settings: AccessSettings,
    began: Instant,
    readers: Cache<Session, Arc<PageReader>>,
    /// Tokens that the API server rejected.
    unknown: Cache<Session, ()>,
    /// Rate limit of token reviews.
    reviews: Mutex<Bucket>,
    /// Whether the user of a session may list these reports.
    lists: Cache<(Session, Reports), bool>,
}

/// A token hash and the [`CACHED`] period in which it was used, so that cached reviews expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Session {
    token: [u8; 32],
    span: u64,
}

/// A user who may see the page.
#[derive(Debug)]
pub(super) struct PageReader {
    session: Session,
    user: UserInfo,
}

/// A set of reports whose list permission is checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Reports {
    /// The reports on namespaced objects, everywhere.
    Everywhere,
    /// The reports in this namespace.
    Of(Arc<str>),
    /// The reports on cluster-scoped objects.
    Cluster,
}

/// Why access was denied.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// The token is not valid.
    Unknown,
    /// This user may not get this `Audit`, as `namespace/name`.
    Forbidden { user: String, audit: String },
    /// Too many tokens were reviewed recently.
    Busy,
    /// The review failed.
    Unavailable(String),
}

impl PageAccess {
    pub(super) fn new(settings: AccessSettings) -> Self {
        Self {
            settings,
            began: Instant::now(),
            readers: Cache::new(READERS),
            unknown: Cache::new(READERS),
            reviews: Mutex::new(Bucket::new(REVIEWS, REVIEWS)),
            lists: Cache::new(NAMESPACES),
        }
    }

    /// Returns the user of a token, if they may see the page.
    ///
    /// Clients can send any token, so malformed tokens are not reviewed, rejected ones are not reviewed again, and the
    /// rate is limited to [`REVIEWS`].
    pub(super) async fn reader(&self, token: &str) -> Result<Arc<PageReader>, Denied> {
        if !has_token_form(token) {
            return Err(Denied::Unknown);
        }
        let span = self.began.elapsed().as_secs() / CACHED.as_secs();
        let session = Session { token: Sha256::digest(token).into(), span };
        if self.unknown.get(&session).is_some() {
            return Err(Denied::Unknown);
        }
        let admit = async {
            let allowed = self.reviews.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
            allowed.map_err(|_later| Denied::Busy)?;
            let user = self.user(token).await.inspect_err(|denied| {
                if *denied == Denied::Unknown {
                    self.unknown.insert(session, ());
                }
            })?;
            let (namespace, name) = &self.settings.audit;
            let audit = ResourceAttributes {
                group: Some(OWN_GROUP.to_owned()),
                resource: Some("audits".to_owned()),
                verb: Some("get".to_owned()),
                namespace: Some(namespace.clone()),
                name: Some(name.clone()),
                ..ResourceAttributes::default()
            };
            if self.may(&user, audit).await? {
                return Ok(Arc::new(PageReader { session, user }));
            }
            Err(Denied::Forbidden { user: user.username.unwrap_or_default(), audit: format!("{namespace}/{name}") })
        };
        self.readers.get_or_insert_async(&session, admit).await
    }

    /// Returns the places in which a reader may see results; `None` if these are all `places`. A place is a namespace, or
    /// `None` for cluster-scoped objects.
    pub(super) async fn visible(&self, reader: &PageReader, places: &Places) -> Result<Option<Places>, Denied> {
        let everywhere = self.may_list(reader, Reports::Everywhere).await?;
        let visible = stream::iter(places.iter().cloned()).map(|place| async {
            let reports = place.clone().map_or(Reports::Cluster, Reports::Of);
            let is_visible = everywhere && place.is_some() || self.may_list(reader, reports).await?;
            Ok(is_visible.then_some(place))
        });
        let visible: Places =
            visible.buffer_unordered(AT_ONCE).try_filter_map(|place| async { Ok(place) }).try_collect().await?;
        Ok((visible.len() < places.len()).then_some(visible))
    }

    /// Returns the user of a token for the audience [`AUDIENCE`] or for that of the API server.
    async fn user(&self, token: &str) -> Result<UserInfo, Denied> {
        for audiences in [Some(vec![AUDIENCE.to_owned()]), None] {
            let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences };
            let review = self.create(&TokenReview { spec, ..TokenReview::default() }).await?;
            let status = review.status.unwrap_or_default();
            if let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) {
                return Ok(user);
            }
        }
        Err(Denied::Unknown)
    }

    /// Whether a reader may list reports.
    async fn may_list(&self, reader: &PageReader, reports: Reports) -> Result<bool, Denied> {
        let api = self.settings.reports;
        let attributes = ResourceAttributes {
            group: Some(api.group().to_owned()),
            resource: Some(api.kind(reports != Reports::Cluster).1.to_owned()),
            verb: Some("list".to_owned()),
            namespace: if let Reports::Of(namespace) = &reports { Some(namespace.to_string()) } else { None },
            ..ResourceAttributes::default()
        };
        self.lists.get_or_insert_async(&(reader.session, reports), self.may(&reader.user, attributes)).await
    }

    /// Whether a user may send a request with these attributes.
    async fn may(&self, user: &UserInfo, attributes: ResourceAttributes) -> Result<bool, Denied> {
        let UserInfo { username, uid, groups, extra } = user.clone();
        let spec = SubjectAccessReviewSpec {
            user: username,
            uid,
            groups,
            extra,
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = self.create(&SubjectAccessReview { spec, ..SubjectAccessReview::default() }).await?;
        Ok(review.status.is_some_and(|status| status.allowed))
    }

    /// Creates a review, which the API server returns with its decision.
    async fn create<R>(&self, review: &R) -> Result<R, Denied>
    where
        R: Resource<Scope = ClusterResourceScope, DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let api = Api::all(self.settings.client.clone());
        api.create(&PostParams::default(), review).await.map_err(|error| Denied::Unavailable(describe(&error)))
    }
}

/// Whether a text has the form of a bearer token (RFC 6750, section 2.1).
fn has_token_form(text: &str) -> bool {
    let token = text.trim_end_matches('=');
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte))
}

impl PageReader {
    /// Returns the name of the user.
    pub(super) fn name(&self) -> &str {
        self.user.username.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kube::client::Body;
    use tower::service_fn;

    use super::*;

    #[tokio::test]
    async fn invalid_tokens_are_reviewed_once_each_at_a_bounded_rate() {
        let reviews = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&reviews);
        let server = service_fn(move |_: http::Request<Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            let review = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{},"status":{}}"#;
            async move { Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(review.as_bytes().to_vec()))) }
        });
        let settings = AccessSettings {
            client: Client::new(server, "default"),
            audit: ("kaudit".to_owned(), "kaudit".to_owned()),
            reports: reports::Api::OpenReports,
        };
        let access = PageAccess::new(settings);
        for text in ["", "==", "a b", "a\u{e9}", "<script>"] {
            assert_eq!(access.reader(text).await.unwrap_err(), Denied::Unknown, "{text}");
        }
        assert_eq!(reviews.load(Ordering::Relaxed), 0, "no token has such a form");
        for _ in 0..100 {
            assert_eq!(access.reader("bad.token").await.unwrap_err(), Denied::Unknown);
        }
        assert_eq!(reviews.load(Ordering::Relaxed), 2, "for both audiences, and then it is cached");
        let mut busy = 0;
        for number in 0..1_000 {
            busy += usize::from(access.reader(&format!("bad{number}")).await.unwrap_err() == Denied::Busy);
        }
        assert!(busy > 500, "{busy} of 1,000 are not reviewed");
    }
}
