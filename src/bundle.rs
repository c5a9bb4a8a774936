//! Bundles: policies that are published in a registry, on a server or as an archive.
//!
//! In: a [`BundleReference`](crate::judge::bundle::BundleReference). Out: its files in memory, as a verified
//! [`Bundle`](crate::judge::bundle::Bundle), and newer versions of it as they are published. [`push`] publishes policies
//! in a registry. Downloads are untrusted: they are bounded, compared with their digest, and unpacked only in memory.

mod archive;
mod cache;
mod contents;
mod cosign;
mod credential;
mod digest;
mod download;
pub mod follower;
mod http;
pub(crate) use self::http::download;
mod key;
mod keyless;
mod manifest;
mod name;
mod package;
pub mod push;
mod registry;
mod ring_provider;
pub mod settings;
mod signature;
