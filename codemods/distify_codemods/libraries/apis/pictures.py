"""Pictures, films and volumes."""

from distify_codemods.libraries.registry import UNSEEN, Api, Effect, Role

_PICTURES = "pictures"
_SHOWS = Effect.WRITES | Effect.SHOWS

APIS = (
    Api("matplotlib.pyplot.savefig matplotlib.pyplot.imsave cv2.imwrite", effect=Effect.WRITES, path=0, one_file=True,
        holds=_PICTURES),
    Api("matplotlib.image.imsave cv2.imwritemulti imageio.imwrite imageio.imsave imageio.mimsave imageio.mimwrite "
        "imageio.volsave imageio.volwrite imageio.v2.imwrite imageio.v2.imsave imageio.v2.mimsave imageio.v2.mimwrite "
        "imageio.v2.volsave imageio.v2.volwrite imageio.v3.imwrite mediapy.write_image mediapy.write_video "
        "skimage.io.imsave tifffile.imwrite tifffile.imsave", effect=Effect.WRITES, path=0, holds=_PICTURES),
    Api("plotly.io.write_image plotly.io.write_html plotly.io.write_json nibabel.save SimpleITK.WriteImage",
        effect=Effect.WRITES, path=1),
    Api("matplotlib.pyplot.show matplotlib.pyplot.pause cv2.imshow cv2.namedWindow cv2.moveWindow cv2.resizeWindow "
        "cv2.setWindowTitle cv2.destroyWindow cv2.destroyAllWindows cv2.waitKey cv2.waitKeyEx cv2.pollKey "
        "plotly.io.show plotly.offline.plot plotly.offline.iplot bokeh.io.show bokeh.plotting.show PIL.ImageShow.show",
        effect=_SHOWS, path=UNSEEN),
    Api(".show", effect=_SHOWS, path=UNSEEN,
        of=("plotly.", "altair.", "PIL.", "matplotlib.", "torchvision.transforms.")),
    Api("cv2.VideoWriter imageio.get_writer imageio.v2.get_writer imageio_ffmpeg.write_frames "
        "matplotlib.backends.backend_pdf.PdfPages", Role.WRITER),
    Api("rasterio.open imageio.v3.imopen cv2.FileStorage av.open", Role.STORE),
    Api("PIL.Image.open cv2.imread", effect=Effect.READS, path=0, one_file=True, holds=_PICTURES),
    Api("matplotlib.image.imread matplotlib.pyplot.imread imageio.imread imageio.v2.imread imageio.v3.imread "
        "imageio.mimread skimage.io.imread skimage.io.imread_collection nibabel.load tifffile.imread "
        "imageio.get_reader imageio.v2.get_reader imageio.v2.mimread imageio.v3.imiter cv2.imreadmulti "
        "SimpleITK.ReadImage pydicom.dcmread", effect=Effect.READS, path=0, holds=_PICTURES),
    Api("IPython.display.Image IPython.display.SVG IPython.display.Audio IPython.display.Video", effect=Effect.OPENS,
        path=0, one_file=True),
    Api(".savefig", effect=Effect.WRITES, path=0, one_file=True, holds=_PICTURES),
    Api(".render", effect=Effect.WRITES, path=0, of=("graphviz.", "torchviz.")),
    Api(".to_file .to_filename .write_videofile .write_gif .write_image .write_html", effect=Effect.WRITES, path=0),
)  # fmt: skip
