"""A scripted model on loopback: it asks for the same small command so many times, then it ends.

It speaks as much of two wires as the measured programs need: Anthropic Messages (Regie, Claude Code) and
OpenAI Responses (Codex). It keeps no state: which turn it is follows from the results in the request.
"""

import http.server
import json
import threading
import time

COMMAND = "true"
WORDS = "Done."


class Model:
    """Serves one program; `turns` calls are asked for. `seen(turn)` is called when a request arrives."""

    def __init__(self, turns, seen=None):
        self.turns = turns
        self.seen = seen or (lambda turn: None)
        self.arrivals = []
        self.sizes = []
        self.tools = []
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                model.answer(self)

            def do_GET(self):
                reply(self, 404, "application/json", b"{}")

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, handler):
        body = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        path = handler.path.split("?")[0]
        if path.endswith("/messages"):
            self.answer_in(handler, body, b'"tool_result"', messages)
        elif path.endswith("/responses"):
            self.answer_in(handler, body, b'"function_call_output"', responses)
        else:
            reply(handler, 404, "application/json", b"{}")

    def answer_in(self, handler, body, mark, wire):
        turn = body.count(mark)
        request = json.loads(body)
        tool = tool_of(request, turn)
        if tool is not None:
            self.seen(turn)
            self.arrivals.append((turn, time.monotonic()))
            self.sizes.append(len(body))
            self.tools = sorted(names_of(request))
        call = tool if turn < self.turns else None
        events = wire(turn, call, request.get("model", "scripted"))
        if request.get("stream"):
            stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
            reply(handler, 200, "text/event-stream", stream.encode())
        else:
            reply(handler, 200, "application/json", json.dumps(whole(events)).encode())


def reply(handler, status, kind, body):
    handler.send_response(status)
    handler.send_header("content-type", kind)
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def names_of(request):
    return [tool.get("name", tool.get("type", "")) for tool in request.get("tools") or []]


def tool_of(request, turn):
    """The shell of the program that asks, and its input for the command: never twice the same, which a
    program may take for an agent that gets nowhere."""
    names = names_of(request)
    command = f"{COMMAND} {turn}"
    inputs = {
        "shell_command": {"command": command},
        "exec_command": {"cmd": command},
        "Bash": {"command": command, "description": "Do nothing"},
        "shell": {"command": command},
    }
    return next(((name, inputs[name]) for name in inputs if name in names), None)


def messages(turn, call, model):
    """One answer as the events of Anthropic's Messages."""
    usage = {"input_tokens": 100, "output_tokens": 20,
             "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    message = {"id": f"msg_{turn:06}", "type": "message", "role": "assistant", "model": model, "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": message}
    if call:
        block = {"type": "tool_use", "id": f"toolu_{turn:06}", "name": call[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": WORDS}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    reason = "tool_use" if call else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None},
           "usage": {"output_tokens": 20}}
    yield {"type": "message_stop"}


def whole(events):
    """The events of an answer without calls as one message, for side requests that do not stream."""
    message = next(iter(events))["message"]
    message.update(content=[{"type": "text", "text": WORDS}], stop_reason="end_turn")
    return message


def responses(turn, call, model):
    """One answer as the events of OpenAI's Responses."""
    head = {"id": f"resp_{turn:06}", "object": "response", "model": model, "output": []}
    if call:
        item = {"type": "function_call", "id": f"fc_{turn:06}", "call_id": f"call_{turn:06}",
                "name": call[0], "arguments": json.dumps(call[1]), "status": "completed"}
    else:
        item = {"type": "message", "id": f"msg_{turn:06}", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": WORDS, "annotations": []}]}
    usage = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 20,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 120}
    yield {"type": "response.created", "response": {**head, "status": "in_progress"}}
    yield {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed",
           "response": {**head, "status": "completed", "output": [item], "usage": usage}}
