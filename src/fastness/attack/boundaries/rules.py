"""
For each rule of the broker and the host of plugins: what breaks it, and what does not.
"""

from __future__ import annotations

from fastness.attack.boundaries.model import Boundary, Breach, Limit
from fastness.attack.model import Rule

RULES = (
    Boundary(
        Rule.GRANTED,
        breaches=(
            Breach("Something is done that the policy of the run does not allow."),
            Breach(
                "A call whose check begins after `revoke` returned, or after the grant's end, has an effect.",
                attacks=(
                    "broker.storage_expired",
                    "plugins.in_flight",
                    "plugins.storage_after_disable",
                    "plugins.storage_after_remove",
                    "plugins.storage_after_revoke",
                    "plugins.storage_expires",
                    "plugins.two_revoke",
                ),
            ),
        ),
        limits=(
            Limit(
                "A call that was let through before is finished.",
                why="it was granted when it was asked; one in flight is cancelled where it can be, and "
                "its outcome kept",
            ),
            Limit(
                "What a guest does within its grant, with arguments of its choice.",
                why="a grant is for calls, not for what somebody means by them",
            ),
        ),
    ),
    Boundary(
        Rule.OWNED,
        breaches=(
            Breach("A guest reads, changes or uses what is kept for another plugin or owner."),
            Breach(
                "A guest gets a credential of the host in one of the four forms that are looked for.",
                attacks=(
                    "broker.llm_credential_echoed",
                    "broker.net_credential_cut",
                    "broker.net_credential_echoed",
                    "broker.net_credential_of_others",
                    "broker.net_credential_paths",
                    "broker.net_credential_redirected",
                ),
            ),
        ),
        limits=(
            Limit(
                "An endpoint that a credential is bound to transforms it and says it to the guest.",
                why="whoever has a secret can put it into a form that nobody looks for",
            ),
        ),
    ),
    Boundary(
        Rule.BOUNDED,
        breaches=(
            Breach("Calls read, keep, send or start more than their ceilings."),
            Breach(
                "Calls keep the host waiting past their time.",
                attacks=("broker.net_slow_drip", "broker.process_time"),
            ),
        ),
        limits=(Limit("A guest uses up all that it was granted.", why="a ceiling is what may be used"),),
    ),
    Boundary(
        Rule.RECORDED,
        breaches=(
            Breach(
                "An effect has no committed record before it.",
                attacks=(
                    "broker.record_full",
                    "broker.record_killed",
                    "broker.record_locked",
                    "plugins.goes_on",
                    "plugins.revoked_while_locked",
                ),
            ),
            Breach(
                "Verifying does not name an edit, a removal or a reordering of records.",
                attacks=(
                    "broker.record_edited",
                    "broker.record_inserted",
                    "broker.record_refusal_hidden",
                    "broker.record_removed",
                    "broker.record_reordered",
                    "broker.record_resealed",
                    "broker.record_trigger",
                ),
            ),
            Breach(
                "A tail is missing against an anchor and is not found.",
                attacks=("broker.record_cut", "broker.record_resealed_with_the_key"),
            ),
            Breach("A record says something else than what was done, or holds words that no record has."),
        ),
        limits=(
            Limit(
                "Whoever has the key seals a tail anew, and no anchor was kept elsewhere.",
                why="seals are made with that key, on the same machine",
            ),
            Limit("The clock of the machine is wrong.", why="times in records are the machine's"),
        ),
    ),
    Boundary(
        Rule.PACKAGED,
        breaches=(
            Breach("Other bytes run than those that were granted."),
            Breach(
                "Anything of a plugin runs before its first call.",
                attacks=("plugins.code_before_its_call", "plugins.data_with_code"),
            ),
            Breach(
                "The install screen shows something else than the manifest says.",
                attacks=("plugins.reason_of_control_characters",),
            ),
        ),
        limits=(Limit("A manifest's reasons are lies.", why="they are shown as the author's words, and are that"),),
    ),
)
