"""Common words of named languages, which say little of what a text is about.

English is scikit-learn's list. The others are function words: articles, pronouns, prepositions, conjunctions, auxiliary
verbs and the commonest adverbs, in lower case.
"""

from __future__ import annotations

_LISTS = {
    "dutch": """
        aan af al alle alles als altijd ander andere anders ben bent bij bijna binnen boven buiten daar daarbij
        daarin daarna daarom dan dat de deze die dit doch doen doet door dus een eens eerst eigen elk elke en
        enkele er erg ervan even ga gaan gaat geen geeft geweest gewoon goed haar had hadden heb hebben hebt
        heeft hem hen het hier hierin hij hoe hoewel hun ieder iedere iemand iets ik in is ja je jij jou jouw
        jullie kan kon konden kunnen kunt laat later maar maken me mee meer meest men met mij mijn moest moet
        moeten mocht mogen na naar nadat net niemand niet niets nog nooit nu of om omdat onder ons onze ook op
        over reeds rond samen sinds slechts soms steeds te tegen ten ter terwijl tijdens toch toe toen tot
        tussen u uit uw vaak van vanaf vanuit veel ver verder vooral voor voordat waar waarbij waarom waarop
        wanneer want waren was wat we wel welke werd werden wie wij wil willen worden wordt zal ze zei zeer zelf
        zich zij zijn zo zoals zonder zou zouden zullen""",
    "french": """
        a ai aient ainsi ait alors après as au aucun aucune aujourd auquel aura aurait aussi autre autres aux
        auxquels avaient avais avait avant avec avez avoir avons ayant beaucoup bien c car ce ceci cela celle
        celles celui cependant ces cet cette ceux chacun chaque chez ci comme comment contre d dans de depuis
        dernier derrière des dès desquels deux devant devrait dit doit doivent donc dont du duquel durant elle
        elles en encore enfin ensuite entre es est et étaient étais était étant été êtes être eu eux fait faire
        fois font furent fut hors ici il ils j je jusqu jusque l la laquelle là le lequel les lesquelles
        lesquels leur leurs lors lorsque lui m ma mais malgré me même mêmes mes mieux moi moins mon n ne ni non
        nos notre nous on ont ou où par parce parfois parmi pas pendant peu peut peuvent peux plus plusieurs
        plutôt pour pourquoi pourrait près puis puisque qu quand que quel quelle quelles quelque quelques quels
        qui quoi quoique s sa sans se selon sera serait ses si soi soient sois soit sommes son sont sous suis
        sur surtout t ta tandis tant te tel telle telles tels tes toi ton toujours tous tout toute toutefois
        toutes très trop tu un une vers voici voilà vos votre vous y""",
    "german": """
        ab aber alle allem allen aller allerdings alles als also am an andere anderem anderen anderer anderes
        auch auf aus bei beide beiden beim bereits bin bis bist da dabei dadurch dafür dagegen daher dahin damit
        danach daneben dann daran darauf daraus darf darin darüber darum das dass daß davon davor dazu dein
        deine deinem deinen deiner dem den denen denn dennoch der deren des deshalb dessen desto dich die dies
        diese diesem diesen dieser dieses dir doch dort du durch dürfen ebenso eher ein eine einem einen einer
        eines einige einigen einiger einmal er erst es etwa etwas euch euer eure für gab ganz gar gegen
        gegenüber geht gerade gewesen gibt hab habe haben hat hatte hatten hätte hätten her hier hin hinter ich
        ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres im immer in indem ins irgend ist ja je jede jedem jeden
        jeder jedes jedoch jene jenem jenen jener jenes jetzt kam kann kannst kaum kein keine keinem keinen
        keiner können könnte könnten lassen man manche manchmal mehr mein meine meinem meinen meiner meist mich
        mir mit mögen möchte muss müssen musste nach nachdem nächst nah neben nein nicht nichts nie noch nun nur
        ob oben oder oft ohne per schon sehr sei seien sein seine seinem seinen seiner seines seit seitdem
        selber selbst sich sie sind so sobald sogar solch solche solchen solcher soll sollen sollte sollten
        somit sondern sonst sowie statt tun über überhaupt um und uns unser unsere unserem unseren unter viel
        viele vielen vielleicht vom von vor während wann war waren warum was wegen weil weit weiter weitere
        welche welchem welchen welcher wenig wenn wer werde werden wie wieder wieso will wir wird wirklich wo
        wohl wollen worden wurde wurden würde würden zu zudem zum zur zwar zwischen""",
    "italian": """
        a abbia abbiamo ad agli ai al alcune alcuni all alla alle allo allora altra altre altri altro anche
        ancora appena aver avere aveva avevano avuto bene c che chi ci ciascuno ciò cioè coi col come con contro
        così cui d da dagli dai dal dall dalla dalle dallo davanti degli dei del dell della delle dello dentro
        deve di dice diversi dopo dove due dunque durante e è ed egli ella entrambi era erano eravamo esse
        essendo essere essi fa fanno fare fatto fino fra fu furono già gli ha hai hanno ho i il in infatti
        inoltre insieme io l la le lei li lo loro lui lungo ma mai me meno mentre mi mia mie miei mio molta
        molti molto ne negli nei nel nell nella nelle nello nessuno niente noi non nostra nostri nostro nulla o
        od ogni ognuno oltre oppure ora ossia per perché però persino piuttosto più po poco poi poiché possono
        potere prima proprio può qua qual qualche quale quali quando quanto quasi quei quel quella quelle quelli
        quello quest questa queste questi questo qui quindi s sarà saranno sarebbe se secondo sei sempre senza
        si sia siamo siano sino solo sono sopra sotto sta stata stati stato stesso su sua sue sugli sui sul sull
        sulla sulle suo suoi tale tali tanto te ti tra troppo tu tua tuo tutta tutte tuttavia tutti tutto un una
        uno v vi viene voi vostro""",
    "portuguese": """
        a à agora ainda além algo alguém algum alguma algumas alguns ali ambos ante antes ao aos após aquela
        aquelas aquele aqueles aquilo aqui as às assim até atrás através bem cada com como contra contudo cuja
        cujo da daquele das de dela delas dele deles demais depois desde dessa desse desta deste deve devem
        dever disso disto do dois dos durante e é ela elas ele eles em embora enquanto entre era eram essa essas
        esse esses esta está estamos estão estar estas estava estavam este estes eu faz fazer fez foi for fora
        foram fosse há havia isso isto já lá lhe lhes logo mais mas me menos mesma mesmo meu meus minha minhas
        muita muitas muito muitos na não nas nem nenhum nessa nesse nesta neste no nos nós nossa nossas nosso
        nossos num numa nunca o onde os ou outra outras outro outros para pela pelas pelo pelos perante per pode
        podem poder pois por porém porque portanto pouco pouca poucos qual quais qualquer quando quanto quase
        que quem quer são se seja sejam sem sempre sendo ser será seria seu seus si sido só sob sobre sua suas
        tal também tampouco tanto te tem têm temos tendo tenha ter teria teu teve tinha tinham toda todas
        todavia todo todos tu tua tudo um uma umas uns vários você vocês vos""",
    "spanish": """
        a acá además ahí ahora al algo algún alguna algunas alguno algunos allá allí ambos ante antes aquel
        aquella aquellas aquello aquellos aquí así aun aún aunque bajo bastante bien cabe cada casi como cómo
        con contra cual cuál cuales cualquier cuando cuándo cuanto cuya cuyo da de debe deben decir dejar del
        demás dentro desde después donde dónde dos durante e el él ella ellas ello ellos embargo en entonces
        entre era eran eres es esa esas ese eso esos esta está estaba estaban estado estamos están estar estas
        este esto estos estoy fin fue fuera fueron fui ha haber había habían habrá hace hacen hacer hacia han
        hasta hay haya he hecho hemos hizo incluso la las le les lo los luego más me mediante menos mi mí mía
        mientras mío mis misma mismas mismo mismos mucha muchas mucho muchos muy nada nadie ni ningún ninguna
        ninguno no nos nosotros nuestra nuestras nuestro nuestros nunca o os otra otras otro otros para parece
        pero poco por porque pues pueda puede pueden podía que qué quien quién quienes se sea sean según ser
        será si sí sido siempre siendo sigue sin sino sobre sois sola solamente solo sólo somos son soy su sus
        suya suyo tal tales también tampoco tan tanto te tenemos tener tengo tenía ti tiene tienen toda todas
        todavía todo todos tras tú tu tus tuvo un una unas uno unos usted ustedes va vamos van varias varios vez
        vosotros vuestro y ya yo""",
    "swedish": """
        alla allt alltid alltså andra annan annat att av bara behöver bland blev bli blir blivit borde både båda
        de dem den denna deras dess dessa det detta dig din dina ditt dock dom du där därför då efter eftersom
        ej eller en enda endast er era ett fanns fick finns fler flera flesta fram från får få för före genom
        ger gick gjorde gör göra ha hade han hans har hela heller henne hennes hit hon honom hos hur här i
        ibland icke igen in inga ingen inget innan inom inte ja jag just kan kanske knappast kom kommer kunde
        kunna kvar långt man med medan mellan men mer mera mest mig min mina mindre minst mitt mot mycket många
        måste ned nej ner ni nog nu när någon något några och också om omkring oss på redan rätt samma samt
        sedan sig sin sina sist sitt själv ska skall skulle slut som står sådan sådana så säger tack till tills
        tror under upp ut utan utanför vad var vara varför varit varje vars vart vem vi vid vidare vilka vilken
        vilket vill ville våra vår vårt väl än ännu är även åt över""",
}

LANGUAGES = ("english", *_LISTS)


def stop_words(language: str) -> frozenset[str]:
    """Return the common words of a language.

    Parameters
    ----------
    language : str
        One of `LANGUAGES`, in any case.

    Raises
    ------
    ValueError
        If the language is not known; the message lists those that are.
    """
    name = language.lower()
    if name == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return frozenset(ENGLISH_STOP_WORDS)
    if name not in _LISTS:
        raise ValueError(
            f"there is no list of stop words for {language!r}: give one of {', '.join(LANGUAGES)}, or the words"
        )
    return frozenset(_LISTS[name].split())
