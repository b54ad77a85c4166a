"""
One invoke with an engine, from its frames to a report.

Everything read here was written by a guest or by an engine that a guest may have taken over: the typed decoders of
``wire`` have bounded each field; this module bounds the sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from fastness.backends.base import Report, Sink, Staged
from fastness.backends.calling import Calling, close_calls
from fastness.backends.engine_process import GRACE_S, EngineLost, EngineProcess
from fastness.backends.telling import CallbackRaised, Gathered, answered, capability_of, claimed, exited, raised
from fastness.brokered import Calls
from fastness.errors import BackendError, ConfigurationError, GuestProtocolError, StagingError
from fastness.runner.staging import DOES_NOT_FIT
from fastness.runs import Changes, Denial, DenialCode, Files, Outcome, OutcomeKind, RunRequest, Usage
from fastness.wire import frames
from fastness.wire import messages as m
from fastness.wire.payload import ClaimHead, GuestPayload, decode_claims, decode_payload

if TYPE_CHECKING:
    from fastness.waiting import Limit, Waiting

#: Seconds that a cancelled run's engine has to answer before it is ended.
_CANCEL_S = 0.1
#: Seconds that moving files to or from an engine may take.
_TRANSFER_S = 30.0
_ENOSPC = 51
_STUB = (
    "it needed a package that is still being compiled, after it had made calls of the host; what they did is not done "
    "twice, so it was ended: run it again once `fastness guest build` is done, or import the package by its name"
)
_SIMPLE = {
    "deadline": OutcomeKind.TIMEOUT,
    "cpu": OutcomeKind.CPU,
    "cancelled": OutcomeKind.CANCELLED,
    "output_limit": OutcomeKind.OUTPUT_LIMIT,
    "memory": OutcomeKind.MEMORY,
    "payload": OutcomeKind.PROTOCOL,
    "trap": OutcomeKind.CRASHED,
}


class Talk(msgspec.Struct):
    """
    ``report`` is None where the quick module met a stub and nothing was done outside it: the run may begin anew.
    ``reusable`` says whether the engine may serve on.
    """

    report: Report | None
    reusable: bool


def _head(
    invoke: int, request: RunRequest, operation: str, session: int, code: bytes, context: bytes = b""
) -> m.Invoke:
    limits = request.limits
    preopens = request.preopens if request.preopens is not None else ("/", "/work")
    wasi = request.runtime == "wasi"
    args = (request.filename or "program.wasm", *request.args) if wasi else request.args
    return m.Invoke(
        id=invoke,
        op=operation,  # type: ignore[arg-type]  # one of the literals, by the callers of this module
        session=session,
        code_len=len(code),
        stdin_len=len(request.stdin),
        context_len=len(context),
        args=args,
        env=tuple(request.env.items()),
        preopens=tuple(m.PreopenHead(path, True) for path in preopens) if wasi else (),
        limits=m.LimitsHead(
            wall_s=limits.wall_s,
            cpu_s=limits.cpu_s,
            memory=limits.memory,
            fds=limits.fds,
            files=limits.files,
            file_bytes=limits.file_bytes,
            output_bytes=limits.output_bytes,
            output_total_bytes=limits.output_total_bytes,
            frame_bytes=min(limits.frame_bytes, 3 << 20),
            call_bytes=min(limits.frame_bytes, frames.GUEST_MAX_BLOB),
            calls_in_flight=limits.calls_in_flight,
            log_bytes=limits.log_bytes,
        ),
        seed=request.seed,
        # A float holds today's date to a quarter of a microsecond; what was meant is the microsecond.
        time_ns=None if request.time is None else round(request.time * 1e6) * 1000,
        fresh=request.fresh,
        filename=request.filename,
    )


async def converse(
    engine: EngineProcess,
    waiting: Waiting,
    invoke: int,
    request: RunRequest,
    staged: Staged,
    sink: Sink | None,
    operation: str,
    session: int = 0,
    queued: float = 0.0,
    calls: Calls | None = None,
) -> Talk:
    """
    Run one request in an engine.

    With ``calls`` the guest has a ctx; those of a run are closed here, those of a session stay for its next execute.
    Raises EngineLost where the engine ended before anything could be told; with partial results the loss is in the
    report.  Cancellation reaches the guest: the engine is told, or ended where it does not answer at once.
    """
    code = (request.code or "").encode("utf-8")
    gathered = Gathered(request)
    calling: Calling | None = None
    context = b""
    if calls is not None:
        # One more than an engine lets through: it, and not this side, keeps a guest waiting.
        engine.session.calls_in_flight = request.limits.calls_in_flight + 1
        calling = Calling(calls, engine.session, request, sink)
        context = calling.context()
    result: m.Result | None = None
    payload = b""
    kind: OutcomeKind | None = None
    detail = ""
    try:
        if staged.files:
            with waiting.limit(_TRANSFER_S):
                await engine.stage(staged.files)
        with waiting.limit(request.limits.wall_s + GRACE_S) as limit:
            head = _head(invoke, request, operation, session, code, context)
            await engine.invoke(head, code + request.stdin + context)
            result, payload = await _receive(engine, gathered, sink, limit, calling, invoke)
            if calling is not None:
                limit.extend(GRACE_S)
                await engine.finish_answers()
    except TimeoutError:
        # The engine is past the deadline and its grace: the second timeout.
        engine.kill()
        kind, detail = OutcomeKind.TIMEOUT, "the engine did not answer and was ended"
    except EngineLost as lost:
        kind, detail = OutcomeKind.CRASHED, lost.why
    except GuestProtocolError as error:
        engine.kill()
        kind, detail = OutcomeKind.PROTOCOL, str(error)
    except BackendError:
        engine.kill()
        raise
    except CallbackRaised as raised:
        await _cancel(engine, invoke, gathered, waiting, calling)
        raise raised.error from None
    except BaseException:
        # Cancelled, interrupted, or the caller's own callback raised: the guest must not outlive the call.
        await _cancel(engine, invoke, gathered, waiting, calling)
        raise
    finally:
        if calling is not None:
            calling.abandon()
    if result is not None and result.ending == "stub":
        if calling is None or not calling.made:
            return Talk(None, True)
        kind, detail = OutcomeKind.GUEST_ERROR, _STUB
    if calling is not None and not session:
        await close_calls(calls, waiting)
    report = _report(request, gathered, result, payload, kind, detail, engine, queued, calling)
    return Talk(report, result is not None and engine.alive)


async def _receive(
    engine: EngineProcess,
    gathered: Gathered,
    sink: Sink | None,
    limit: Limit,
    calling: Calling | None = None,
    invoke: int = 0,
) -> tuple[m.Result, bytes]:
    collecting = False
    while True:
        message, blob = await engine.receive(calling)
        if isinstance(message, m.Result):
            out, err = message.stdout_len, message.stderr_len
            if message.ending != "stub":
                gathered.output("stdout", blob[:out], sink)
                gathered.output("stderr", blob[out : out + err], sink)
            return message, blob[out + err :]
        if isinstance(message, m.Event):
            if message.name in ("stdout", "stderr"):
                gathered.output(message.name, blob, sink)
        elif isinstance(message, m.Artefact):
            if not collecting:
                # The guest is over; its files may take longer than what is left of its own time.
                collecting = True
                limit.extend(_TRANSFER_S)
            gathered.artefact(message, blob)
        elif calling is not None and isinstance(message, (m.Call, m.Drop, m.Log)):
            ended = calling.over
            engine.give(calling.take(message, blob, at_once=engine.taken))
            if calling.over and not ended:
                engine.cancel(invoke)
        elif isinstance(message, m.Error):
            engine.kill()
            raise BackendError(f"the engine ({message.where})", message.message, "please report this")
        else:
            raise GuestProtocolError(f"{type(message).__name__.lower()} has no meaning for this guest")


async def _cancel(
    engine: EngineProcess, invoke: int, gathered: Gathered, waiting: Waiting, calling: Calling | None
) -> None:
    """Tell the engine to end the run, and end the engine where it does not answer at once."""
    if engine.dead:
        return
    engine.cancel(invoke)
    if calling is not None:
        calling.over = True
        calling.abandon()
    try:
        with waiting.limit(_CANCEL_S, shield=True) as limit:
            await _receive(engine, gathered, None, limit, calling)
            await engine.finish_answers()
    except (TimeoutError, EngineLost, GuestProtocolError, BackendError):
        engine.kill()


def _report(
    request: RunRequest,
    gathered: Gathered,
    result: m.Result | None,
    payload: bytes,
    kind: OutcomeKind | None,
    detail: str,
    engine: EngineProcess,
    queued: float,
    calling: Calling | None,
) -> Report:
    answer: GuestPayload | None = None
    claims: tuple[ClaimHead, ...] = ()
    exit_code: int | None = None
    if result is not None:
        payload, told = payload[: result.payload_len], payload[result.payload_len :]
        claims = decode_claims(told) if told else ()
        if result.ending == "refused":
            raise _refused(result)
        exit_code = result.exit_code
        # What the guest said is shown whatever came after, but only a return makes it an answer.
        if payload and result.ending in ("returned", "exit"):
            try:
                answer = decode_payload(payload)
            except GuestProtocolError as error:
                kind, detail = OutcomeKind.PROTOCOL, str(error)
        if kind is None:
            kind, detail, exit_code = _outcome(request, result, answer, exit_code)
    assert kind is not None
    if calling is not None and calling.over and kind not in (OutcomeKind.PROTOCOL, OutcomeKind.CRASHED):
        # Also where the guest had come to its end before it could be told.
        kind, detail = OutcomeKind.CALL_LIMIT, f"more than {request.limits.calls} calls of the host"
    refused, refused_dropped = calling.denials() if calling is not None else ((), 0)
    denials = _denials(result, refused, answer.claims if answer is not None else claims)
    usage = result.usage if result is not None else m.UsageHead()
    dropped = gathered.out.dropped + gathered.err.dropped
    change = gathered.change
    good = answer is not None and kind is OutcomeKind.OK
    return Report(
        outcome=Outcome(kind, detail[:2000], None, dropped),
        value=answer.value if good and answer is not None else None,
        value_repr=answer.value_repr if good and answer is not None else None,
        stdout=gathered.out.bytes(),
        stderr=gathered.err.bytes(),
        exit_code=exit_code,
        files=Files(gathered.files),
        changes=Changes(
            tuple(sorted(path for path, what in change.items() if what == "added")),
            tuple(sorted(path for path, what in change.items() if what == "changed")),
            result.deleted if result is not None else (),
        ),
        denials=denials,
        usage=Usage(
            wall_s=usage.wall_us / 1e6,
            cpu_s=usage.cpu_us / 1e6,
            queue_s=queued,
            memory=usage.memory_bytes,
            stdout_bytes=usage.stdout_bytes,
            stderr_bytes=usage.stderr_bytes,
            file_bytes=usage.file_bytes,
            files=usage.files,
            calls=calling.made if calling is not None else 0,
            denials_dropped=refused_dropped
            + (result.denials_dropped if result is not None else 0)
            + (answer.claims_dropped if answer is not None else 0),
        ),
        layers=layers_of(engine),
        state=result.session_state if result is not None else "lost",
    )


_INSIDE = {"fs_confined": "memory tree", "net_confined": "no sockets"}


def layers_of(engine: EngineProcess) -> dict[str, str]:
    """What this very engine has put on itself, under the guarantees' names; the guest's own walls come first."""
    return {
        name.upper(): f"{_INSIDE[name]}+{mechanism}" if name in _INSIDE else mechanism
        for name, mechanism in engine.ready.layers.items()
    }


def _refused(result: m.Result) -> Exception:
    if result.trap.startswith("the files do not fit"):
        return StagingError("files", result.trap, DOES_NOT_FIT)
    if result.trap.startswith("the module"):
        return ConfigurationError("module", result.trap, "a preview 1 command module, which exports _start")
    return BackendError("running the guest", result.trap, "please report this")


def _outcome(
    request: RunRequest, result: m.Result, answer: GuestPayload | None, exit_code: int | None
) -> tuple[OutcomeKind, str, int | None]:
    """Kind, detail and exit code of a run whose engine answered."""
    ending = result.ending
    if ending in _SIMPLE:
        detail = result.trap if ending in ("trap", "payload") else ""
        return _SIMPLE[ending], detail, None
    if ending == "exit" or request.runtime == "wasi":
        code = exit_code if ending == "exit" else 0
        if answer is not None and answer.kind == "exception":
            # A guest whose answer was written before it exited: the exception is what a caller wants to know.
            return raised(answer, _full(answer, result))
        return exited(code or 0)
    if answer is None:
        return OutcomeKind.PROTOCOL, "the guest returned without an answer", None
    return answered(answer, _full(answer, result))


def _full(answer: GuestPayload, result: m.Result) -> bool:
    return answer.errno == _ENOSPC and any(row.code == "quota" for row in result.denials)


def _denials(result: m.Result | None, refused: tuple[Denial, ...], claims: tuple[ClaimHead, ...]) -> tuple[Denial, ...]:
    rows: list[Any] = []
    if result is not None:
        rows += [
            Denial(
                capability=capability_of(row.operation),
                operation=row.operation,
                target=row.target,
                code=DenialCode(row.code),
                layer=row.layer,
                count=row.count,
                at=row.at_us / 1e6,
            )
            for row in result.denials
        ]
    return (*rows, *refused, *claimed(claims))
