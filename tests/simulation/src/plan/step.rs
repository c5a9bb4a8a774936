//! The steps of a run.

use crate::{
    bus::BusFault,
    cluster::{Contents, ObjectName},
    excuses::Excuse,
    faults::FaultRates,
    policies::Policy,
    replica::ReplicaSettings,
};

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum RunStep {
    /// An object is created, or replaced; another one of its namespace may control it.
    Write(ObjectName, Contents),
    /// An object is deleted.
    Delete(ObjectName),
    /// An object is deleted, and another created in its place at once.
    Recreate(ObjectName, Contents),
    /// A policy's file is written.
    SetPolicy(Policy),
    /// The file of the policy with this number is removed.
    RemovePolicy(u8),
    /// The policy with this number becomes invalid, until the next comparison.
    BreakPolicy(u8),
    /// A namespace is excused from a policy.
    Excuse(Excuse),
    /// The exception is removed.
    EndExcuse(Excuse),
    /// All replicas stop; later ones start with these settings.
    Configure(ReplicaSettings),
    /// A replica starts, if it is not running.
    Start(u8),
    /// The first replica starts, and reads a kind so many milliseconds late, until when nothing must be recorded.
    StartUnread(usize, u16),
    /// A replica is killed: it loses its connections for good.
    Kill(u8),
    /// A replica stops.
    Stop(u8),
    /// A replica is disconnected, while others are not.
    Disconnect(u8),
    /// A replica is reconnected.
    Reconnect(u8),
    /// Requests have these faults, until the next such step.
    SetFaults(FaultRates),
    /// This group is missing from so many of the next discoveries.
    MissGroup(&'static str, u8),
    /// The bus fails.
    BreakBus(BusFault),
    /// The bus works again.
    RestoreBus,
    /// Another process takes the Leases, once everything has converged.
    TakeLeases,
    /// Requests for some resources begin to fail, once everything has converged.
    BeginOutage(FaultRates),
    /// Everything that does not depend on the failing requests is compared.
    CompareOthers,
    /// kaudit may no longer read a kind.
    Forbid(usize),
    /// kaudit may read a kind again.
    Allow(usize),
    /// The definition of Widgets is removed with its objects.
    RemoveWidgets,
    /// The definition of Widgets is added, optionally with a second, preferred version.
    DefineWidgets(bool),
    /// From now on an object is updated at this interval in milliseconds, in an annotation that no policy reads.
    KeepWriting(ObjectName, u32),
    /// The server compacts earlier versions.
    Compact,
    /// The server's watch cache is cleared.
    ForgetWatchHistory,
    /// The server restarts.
    RestartServer,
    /// The process gets no processor time for these milliseconds.
    Freeze(u32),
    /// The time of day changes by these seconds.
    ChangeTimeOfDay(i32),
    /// These milliseconds pass.
    Wait(u32),
    /// Faults end; once everything is quiet, everything is compared.
    Compare,
    /// The same, and then all replicas are restarted with these faults, which must write nothing.
    CompareRestarted(FaultRates),
    /// Replicas stop as soon as their results are right, and must have written them before they end.
    CompareStopped,
}

impl RunStep {
    /// Whether it changes objects only.
    pub const fn is_calm(&self) -> bool {
        matches!(
            self,
            Self::Write(..)
                | Self::Delete(_)
                | Self::Recreate(..)
                | Self::KeepWriting(..)
                | Self::Wait(_)
                | Self::CompareOthers
                | Self::Compare
                | Self::CompareRestarted(_)
                | Self::CompareStopped
        )
    }

    /// Whether kaudit may receive changes of different kinds in another order than that in which they happen.
    pub const fn may_reorder(&self) -> bool {
        matches!(
            self,
            Self::Disconnect(_)
                | Self::Reconnect(_)
                | Self::SetFaults(_)
                | Self::StartUnread(..)
                | Self::MissGroup(..)
                | Self::BeginOutage(_)
                | Self::Forbid(_)
                | Self::Allow(_)
                | Self::RemoveWidgets
                | Self::DefineWidgets(_)
                | Self::Compact
                | Self::ForgetWatchHistory
                | Self::RestartServer
                | Self::Freeze(_)
        )
    }

    /// Whether a leader may lose its Lease, or end without releasing it.
    pub const fn may_lose_lease(&self) -> bool {
        matches!(
            self,
            Self::Kill(_)
                | Self::Disconnect(_)
                | Self::SetFaults(_)
                | Self::RestartServer
                | Self::Freeze(_)
                | Self::TakeLeases
        )
    }

    /// Whether it may change kaudit's results.
    pub const fn changes_findings(&self) -> bool {
        matches!(
            self,
            Self::Write(..)
                | Self::Delete(_)
                | Self::Recreate(..)
                | Self::SetPolicy(_)
                | Self::RemovePolicy(_)
                | Self::BreakPolicy(_)
                | Self::Excuse(_)
                | Self::EndExcuse(_)
                | Self::RemoveWidgets
                | Self::DefineWidgets(_)
                | Self::Configure(_)
        )
    }
}
