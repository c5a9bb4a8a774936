//! Plural names of kinds.

/// Returns the plural name of a kind by the rules that Kubernetes itself uses.
pub(crate) fn plural(kind: &str) -> String {
    let version = kube::core::GroupVersionKind::gvk("", "", kind);
    kube::core::ApiResource::from_gvk(&version).plural
}
