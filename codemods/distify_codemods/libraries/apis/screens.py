"""What is drawn on a terminal: text and progress bars."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("sys.stdout.write sys.stderr.write sys.stdout.writelines sys.stderr.writelines sys.__stdout__.write "
        "sys.__stderr__.write os.write pprint.pprint pprint.pp "
        "rich.print click.echo click.secho typer.echo typer.secho termcolor.cprint IPython.display.display "
        "IPython.display.clear_output", effect=Effect.PRINTS),
    Api("rich.console.Console pprint.PrettyPrinter", Role.CONSOLE, writes_by="print log rule print_json pprint"),
    Api("progressbar. progress.bar. progress.spinner. alive_progress. fastprogress. enlighten. pkbar. "
        "tqdm.contrib.tenumerate tqdm.contrib.tzip tqdm.contrib.tmap tqdm.contrib.concurrent. tqdm.contrib.itertools. "
        "tqdm.contrib.discord. tqdm.contrib.slack. tqdm.contrib.telegram. tqdm.contrib.bells. "
        "tqdm.contrib.logging.tqdm_logging_redirect click.progressbar typer.progressbar", Role.BAR),
)  # fmt: skip
