"""What libraries have to do with the world outside of the process: who is asked, and what comes back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distify_codemods.libraries.downloads import says_so

_VERBS = "get post put patch delete head options request".split()
#: Functions that ask once, and return plain data that can be sent on to other processes.
_QUESTIONS = frozenset(
    [*(f"{library}.{verb}" for library in ("requests", "httpx", "requests.api") for verb in _VERBS),
     *(f"huggingface_hub.{name}" for name in "dataset_info file_exists model_info repo_exists whoami".split()),
     "urllib3.request", "openai.ChatCompletion.create", "openai.Completion.create", "ollama.chat", "ollama.generate",
     "yfinance.download", "pandas_datareader.DataReader", "pandas_datareader.data.DataReader", "quandl.get",
     "nasdaqdatalink.get", "tushare.pro_bar",
     "google.colab.files.download", "google.colab.files.upload",
     "litellm.completion", "paho.mqtt.publish.single", "paho.mqtt.publish.multiple", "paho.mqtt.subscribe.simple"]
)  # fmt: skip
#: Commands whose output is asked for. Of those that only tell something, each rank hears for itself.
_OUTPUTS = frozenset({"subprocess.check_output", "subprocess.getoutput", "subprocess.getstatusoutput"})
#: Commands: they may do anything, so that rank 0 alone runs them.
_COMMANDS = frozenset({"subprocess.run", "subprocess.call", "subprocess.check_call", "os.system", *_OUTPUTS})
#: Programs that tell something and do nothing, and what of others does not.
_TELLS = frozenset(
    "arch cat date df du echo free getconf grep head hostname id ls lsb_release lscpu lspci nproc nvidia-smi "
    "printenv ps pwd rocm-smi stty tail tput tty uname uptime wc which who whoami".split()
)
_TELLS_BY = {
    "git": frozenset("rev-parse describe log status diff show rev-list name-rev ls-files symbolic-ref".split()),
    "pip": frozenset({"freeze", "list", "show"}),
    "conda": frozenset({"list", "info"}),
    "scontrol": frozenset({"show"}),
}
#: What each rank asks for itself, for the answer or for what the process then has: other programs, a camera.
_BY_EACH = (
    "os.popen", "GPUtil.", "nvidia_smi.", "cv2.VideoCapture", "huggingface_hub.login", "huggingface_hub.notebook_login",
    "huggingface_hub.interpreter_login", "huggingface_hub.list_", "kaggle.api.authenticate", "git.Repo",
    "pandas.read_gbq", "pandas.read_sql", "clearml.Dataset.", "clearml.StorageManager.",
    "socket.getaddrinfo", "socket.gethostbyaddr", "socket.gethostbyname", "webbrowser.open",
)  # fmt: skip
#: Of these, what opens a file as well, unless it is given a number or an address.
OPENS_FILES = frozenset({"cv2.VideoCapture"})
#: Libraries of connections, clients and devices: what their functions make is one end of something that has another.
_LIBRARIES = (
    "requests.Session", "requests.session", "requests.sessions.", "httpx.Client", "urllib.request.urlopen",
    "urllib3.PoolManager", "http.client.", "socket.", "ssl.", "ftplib.", "telnetlib.", "xmlrpc.client.", "smtplib.",
    "imaplib.", "poplib.", "zmq.", "pynng.", "websocket.", "socketio.", "serial.", "paho.", "pika.", "kafka.",
    "nats.", "boto3.", "botocore.", "google.cloud.", "azure.", "paramiko.", "fabric.", "telegram.", "telebot.",
    "slack.", "slack_sdk.", "slackweb.", "discord.", "twilio.", "yagmail.", "pymongo.", "redis.", "psycopg2.",
    "psycopg.", "pymysql.", "MySQLdb.", "mysql.", "pyodbc.", "sqlalchemy.create_engine", "influxdb.", "openai.",
    "anthropic.", "multiprocessing.connection.", "subprocess.Popen", "pyaudio.", "sounddevice.", "RPi.", "smbus.",
    "grpc.aio.", "grpc.insecure_channel", "grpc.secure_channel", "grpc.server",
    "pexpect.", "Pyro4.", "Pyro5.", "apprise.", "cassandra.", "cohere.", "dropbox.", "elasticsearch.",
    "google.genai.", "google.generativeai.", "gradio_client.", "gspread.", "hdfs.", "http.server.",
    "huggingface_hub.HfApi", "huggingface_hub.InferenceClient", "minio.", "mistralai.", "neo4j.", "notifiers.",
    "oss2.", "prometheus_client.", "pushbullet.", "qiniu.", "replicate.", "rpyc.", "selenium.", "socketserver.",
    "tweepy.", "urllib.request.build_opener", "urllib2.", "xmlrpc.server.",
)  # fmt: skip
#: Where calls are awaited: no other rank can be waited for in between.
ASYNCHRONOUS = (
    "aiohttp.", "aioredis.", "aiosmtplib.", "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell",
    "asyncio.open_connection", "asyncio.start_server", "asyncpg.", "asyncssh.", "httpx.AsyncClient", "websockets.",
)  # fmt: skip
#: Of these, what asks nobody.
_NO_CONNECTION = (
    "socket.get", "socket.inet", "socket.hton", "socket.ntoh", "socket.setdefaulttimeout", "socket.if_",
    "ssl.create_default_context", "ssl.SSLContext", "ssl._create",
)  # fmt: skip
#: Methods of connections that make another one.
MAKES_ANOTHER = frozenset(
    "cursor makefile socket session pipeline pubsub connect channel get_database get_collection bucket Bucket Table "
    "get_bucket blob begin_nested".split()
)
#: Methods that answer with plain data.
_DATA = frozenset(
    "recv recv_json recv_string recv_pyobj recv_multipart recv_into read readline readlines read_until read_all get "
    "post put patch delete head options request fetchone fetchall fetchmany hget hgetall lrange lpop rpop blpop brpop "
    "incr decr exists keys find_one count_documents poll send sendall send_json send_string wait communicate "
    "getvalue inWaiting isOpen is_open ping publish create".split()
)
_INTO_A_FILE = frozenset({"fget_object", "retrbinary", "retrlines"})
#: What each process finds out about itself and its machine, and what answers with text: nobody minds being asked.
_OF_THE_MACHINE = (
    "psutil.", "GPUtil.", "pynvml.", "nvidia_smi.", "os.getpid", "os.getppid", "os.getloadavg", "os.times",
    "os.popen", "os.statvfs", "resource.getrusage", "shutil.disk_usage", "socket.gethostname", "socket.getfqdn",
    "platform.node", "torch.cuda.memory_allocated", "torch.cuda.max_memory_allocated",
    "torch.cuda.memory_reserved", "torch.cuda.max_memory_reserved", "torch.cuda.mem_get_info",
    "torch.cuda.memory_stats", "torch.cuda.utilization", "torch.cuda.temperature", "tracemalloc.",
)  # fmt: skip
#: They stop for a person at a terminal.
DEBUGGERS = (
    "builtins.breakpoint", "pdb.set_trace", "ipdb.set_trace", "pudb.set_trace", "IPython.embed", "code.interact",
    "IPython.core.debugger.set_trace", "pdb.post_mortem", "ipdb.post_mortem",
)  # fmt: skip
#: What ends or stops processes of the machine, or sends them a signal: functions, and methods of what others find.
SIGNALS = ("os.kill", "os.killpg", "signal.pidfd_send_signal")
_FINDS_PROCESSES = "psutil."
_ACTS_ON_PROCESSES = frozenset("kill terminate suspend resume send_signal".split())
#: Of these, what finds the processes that one has started itself; and what each process is told as its own number.
PROCESS, OWN_NUMBER = "psutil.Process", "os.getpid"
_OWN_CHILDREN = f"{PROCESS}.children"
#: Clocks that answer with a number.
SECONDS = frozenset(
    [*(f"time.{name}{unit}" for name in ("time", "monotonic", "perf_counter", "process_time") for unit in ("", "_ns")),
     "timeit.default_timer"]
)  # fmt: skip
_CLOCKS = SECONDS | frozenset(
    [*(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")), "datetime.date.today", "time.localtime",
     "time.gmtime"]
)  # fmt: skip
#: What is played, step by step, in a process or on a machine of its own; and what moves are drawn from, by numbers that
#: each process has for itself.
SIMULATORS = (
    "gym.spaces.", "gymnasium.spaces.",
    "airsim.", "carla.", "pybullet.", "mlagents_envs.", "vizdoom.", "habitat_sim.", "isaacgym.", "dm_control.",
    "pettingzoo.", "deepmind_lab.", "gym_unity.", "unityagents.", "nle.", "minerl.", "pysc2.", "gfootball.",
)  # fmt: skip
#: Programs that work with the files that are there, beside those that only answer.
_STAY_HERE = frozenset(
    "basename cd chmod chown cp dirname gunzip gzip kill ln mkdir mv pkill rm rmdir sleep sort tar touch true unzip xz "
    "zcat zip".split()
)
#: Connections by which nothing comes.
_ONLY_SEND = ("smtplib.",)
_SEPARATORS = frozenset({";", "&&", "||", "|", "&"})
_THROWN_AWAY = frozenset({"2>&1", "2>/dev/null"})


def asks(name: str) -> bool:
    """Whether a function asks somebody once: `requests.post`."""
    return name in _QUESTIONS or name in _COMMANDS


#: The word by which a command says so: `pip install`, `apt-get install`.
INSTALLS = "install"


def is_command(name: str) -> bool:
    """Whether a function runs something that may write files, too."""
    return name in _COMMANDS


def hands_back_its_output(name: str, options: Mapping[str, str]) -> bool:
    """Whether what a command prints comes back to who runs it. `options`: what it is given by name, as spelled."""
    to = options.get("stdout", "")
    return name in _OUTPUTS or (name in _COMMANDS and (options.get("capture_output") == "True" or to.endswith("PIPE")))


def tells_only(name: str, words: tuple[str, ...]) -> bool:
    """Whether a command, of which the beginning may be all that is known, is seen to do nothing but answer."""
    if name not in _OUTPUTS or not words:
        return False
    if "|" in words:
        at = words.index("|")
        return tells_only(name, words[:at]) and tells_only(name, words[at + 1 :])
    program, given = words[0].rpartition("/")[2], [word for word in words[1:] if word not in _THROWN_AWAY]
    if any(set(word) & set(";&|>`$") for word in given):
        return False
    while given[:1] and given[0].startswith("-"):  # `git -C folder log`
        given = given[2 if given[0] in ("-C", "-c") else 1 :]
    return program in _TELLS or (bool(given) and given[0] in _TELLS_BY.get(program, ()))


def may_fetch(name: str, words: tuple[str, ...], is_used: bool) -> bool:
    """Whether a call, of a command with these words, may bring a file that somebody else has: what is not known may."""
    if is_command(name) or name in ("subprocess.Popen", "os.popen"):
        return not tells_only(name, words) and not all(one in _TELLS | _STAY_HERE for one in _programs(words))
    return is_used if asks(name) else connects(name) and not name.startswith(_ONLY_SEND)


def _programs(words: tuple[str, ...]) -> Iterator[str]:
    """What a line of a shell runs, `?` for what is not seen."""
    begins = True
    for word in words or ("?",):
        if begins:
            yield word.rpartition("/")[2]
        begins = word in _SEPARATORS
        if not begins and set(word) & set(";&|`$()"):
            yield "?"


def connects(name: str) -> bool:
    """Whether what a function makes is a connection, a client or a device: `socket.create_connection`."""
    known = asks(name) or name.startswith((*_NO_CONNECTION, *_OF_THE_MACHINE))
    return name.startswith(_LIBRARIES) and not known


def is_asked_by_each(name: str) -> bool:
    """Whether each rank goes outside by such a call, and for itself: `subprocess.check_output`."""
    return name.startswith(_BY_EACH)


def acts_on_a_process(found_by: str, method: str) -> bool:
    """Whether a method acts on a process that this function found: `psutil.process_iter`, and `kill`."""
    finds = found_by.startswith(_FINDS_PROCESSES) and not found_by.startswith(_OWN_CHILDREN)
    return finds and method in _ACTS_ON_PROCESSES


def answers_with_data(method: str) -> bool:
    return method in _DATA


def fetches_a_file(method: str, given: int) -> bool:
    """Whether a method of a connection makes a file: `bucket.download_file(...)`, `sftp.get(there, here)`."""
    return says_so(method) or method in _INTO_A_FILE or (method == "get" and given == 2)


def is_of_the_machine(name: str) -> bool:
    """Whether a function tells what is another thing on each machine, or in each process."""
    return name.startswith(_OF_THE_MACHINE)


def is_of_the_clock(name: str) -> bool:
    """Whether a function tells the time, or what was made of it."""
    return name in _CLOCKS


def is_named(name: str) -> bool:
    """Whether it is in one of these tables."""
    known = asks(name) or connects(name) or is_of_the_machine(name) or is_asked_by_each(name)
    return known or name.startswith((*ASYNCHRONOUS, *SIMULATORS))


def sends(name: str) -> bool:
    """Whether a function or method that writes files sends them: `model.push_to_hub`."""
    return name == "push_to_hub" or name.startswith("huggingface_hub.upload_")
